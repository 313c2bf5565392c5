"""Commands that treat strings as bitmaps."""

TABLE = """
8 SETBIT key offset bit
5 GETBIT key offset
3 SET key value
1 APPEND key value
4 BITCOUNT key [index index [BYTE|BIT]]
1 BITCOUNT key <index|index index NOPE>
5 BITPOS key bit [index [index [BYTE|BIT]]]
1 BITPOS key bit <index index NOPE|BIT>
4 BITOP <AND|OR|XOR> key key*
2 BITOP NOT key key
1 BITOP <NOT|NAND|AND> key key key
6 BITFIELD key (<GET bit_type bit_position|SET bit_type bit_position integer|INCRBY bit_type bit_position
    integer>)*
3 BITFIELD key OVERFLOW <WRAP|SAT|FAIL|NOPE> INCRBY bit_type bit_position integer [OVERFLOW <SAT|FAIL>] SET
    bit_type bit_position field_value
1 BITFIELD key
2 BITFIELD_RO key (GET bit_type bit_position)*
1 BITFIELD_RO key (<GET bit_type bit_position|SET bit_type bit_position integer>)*
1 GET key
1 STRLEN key
1 SETRANGE key offset value
"""
