//! The data of SQL tables: catalog, types, rows, pages, heap, index keys.
