"""Python procedures: functions that run beside the data, each call in one transaction.

    @peryton.procedure
    def transfer(db: Handle, source: int, target: int, amount: int) -> int:
        (balance,) = db.sql("SELECT balance FROM accounts WHERE id = ?", source).one()
        if balance < amount:
            raise ValueError("not enough money")
        db.sql("UPDATE accounts SET balance = balance - ? WHERE id = ?", amount, source)
        db.sql("UPDATE accounts SET balance = balance + ? WHERE id = ?", amount, target)
        return balance - amount

`db.register(transfer)` makes it known to an embedded store, `peryton serve --procedures module` to a server; then
`db.call("transfer", 1, 2, 50)` and `CALL transfer(1, 2, 50)` call it. The end commits, an exception rolls back, and a
conflict with another transaction runs the function again: so what it does besides the transaction may happen twice.
"""

from peryton.procedures.handle import Handle
from peryton.procedures.mark import procedure
from peryton.procedures.registry import Registry
from peryton.procedures.run import StopProcedure

__all__ = ["Handle", "Registry", "StopProcedure", "procedure"]
