// SPDX-License-Identifier: Apache-2.0
// Seata's TCC mode: two actions of this program that do nothing, by its own proxies.

import io.seata.integration.tx.api.util.ProxyUtil;
import io.seata.rm.tcc.api.BusinessActionContext;
import io.seata.rm.tcc.api.LocalTCC;
import io.seata.rm.tcc.api.TwoPhaseBusinessAction;
import io.seata.tm.api.GlobalTransaction;
import io.seata.tm.api.GlobalTransactionContext;
import io.seata.core.context.RootContext;

public class SeataTcc {
    public interface Action {
        boolean reserve(BusinessActionContext context);

        boolean confirm(BusinessActionContext context);

        boolean cancel(BusinessActionContext context);
    }

    @LocalTCC
    public interface Stock extends Action {
        @TwoPhaseBusinessAction(name = "stock", commitMethod = "confirm", rollbackMethod = "cancel")
        boolean reserve(BusinessActionContext context);
    }

    @LocalTCC
    public interface Money extends Action {
        @TwoPhaseBusinessAction(name = "money", commitMethod = "confirm", rollbackMethod = "cancel")
        boolean reserve(BusinessActionContext context);
    }

    public static class Nothing {
        public boolean reserve(BusinessActionContext context) {
            return true;
        }

        public boolean confirm(BusinessActionContext context) {
            return true;
        }

        public boolean cancel(BusinessActionContext context) {
            return true;
        }
    }

    public static class StockService extends Nothing implements Stock {
    }

    public static class MoneyService extends Nothing implements Money {
    }

    private final Action[] actions = {ProxyUtil.createProxy(new StockService()), ProxyUtil.createProxy(new MoneyService())};

    void order() throws Exception {
        GlobalTransaction t = GlobalTransactionContext.getCurrentOrCreate();
        t.begin(60000, "order");
        try {
            for (Action action : actions)
                if (!action.reserve(null))
                    throw new IllegalStateException("a try said no");
            t.commit(); // returns when both have confirmed
        } catch (Exception e) {
            t.rollback();
            throw e;
        } finally {
            RootContext.unbind();
        }
    }
}
