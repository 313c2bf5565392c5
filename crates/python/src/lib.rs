//! The Python binding of Peryton: registration of the `peryton._core` module.
