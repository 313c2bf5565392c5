"""MULTI, EXEC, DISCARD, WATCH and UNWATCH, on one connection."""

TABLE = """
6 MULTI ; any_command ; any_command ; any_command ; EXEC
4 MULTI ; any_command ; any_command ; any_command ; any_command ; EXEC
3 MULTI ; any_command ; any_command ; DISCARD
2 MULTI ; any_command ; NOPE value value ; any_command ; EXEC
2 MULTI ; any_command ; GET ; any_command ; EXEC
1 MULTI ; MULTI ; any_command ; EXEC
1 MULTI ; any_command ; WATCH any_key ; any_command ; EXEC
1 MULTI ; UNWATCH ; any_command ; EXEC
1 MULTI ; EXEC
1 MULTI ; DISCARD
1 MULTI ; PING ; ECHO value ; SELECT 1 ; any_command ; SELECT 0 ; any_command ; EXEC
1 MULTI ; SELECT wrong_database ; any_command ; EXEC
1 MULTI ; any_command ; RESET ; any_command ; EXEC
1 MULTI ; any_command ; FLUSHDB ; any_command ; EXEC
3 WATCH any_key* ; MULTI ; any_command ; any_command ; EXEC
4 WATCH any_key* ; any_write ; MULTI ; any_command ; EXEC
2 WATCH any_key* ; any_write ; UNWATCH ; MULTI ; any_command ; EXEC
2 WATCH any_key* ; any_write ; MULTI ; any_command ; DISCARD ; MULTI ; any_command ; EXEC
2 ! SET string_key value PXAT 1 ; WATCH @ ; GET @ ; MULTI ; any_command ; EXEC
1 ! WATCH every_key ; <FLUSHDB|FLUSHALL|SWAPDB 0 1> ; MULTI ; any_command ; EXEC
1 WATCH any_key ; SELECT 1 ; any_write ; SELECT 0 ; MULTI ; any_command ; EXEC
1 EXEC
1 DISCARD
1 UNWATCH
1 WATCH
1 <EXEC|DISCARD|MULTI|UNWATCH> 1
7 any_command
"""
