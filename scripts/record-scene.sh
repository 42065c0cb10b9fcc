# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the picture in the README shows; read by record.sh, which has the verbs.

prompt 0 1
prompt 1 1
snap 0.8
type_in 0 "rota run backup -- backup.sh"
enter 0
await 0 "backing up"
snap 1.2

type_in 1 "rota run -n backup -- backup.sh || echo busy: \$?"
enter 1
prompt 1 2
snap 1.5
type_in 1 "rota why backup"
enter 1
prompt 1 3
snap 4
type_in 1 "rota run backup -- backup.sh"
enter 1
await 1 "waiting for"
snap 2.5

enter 0
prompt 0 2
await 1 "backing up, fence"
snap 2.5

enter 1
prompt 1 4
type_in 0 "rota once report-\$(date +%F) -- echo report sent"
enter 0
prompt 0 3
snap 1.5
type_in 0 "rota once report-\$(date +%F) -- echo report sent"
enter 0
prompt 0 4
snap 2
type_in 1 "rota ls"
enter 1
prompt 1 5
snap 6
