use super::TestStore;
use crate::table::datum::DatumRef;
#[test]
#[ignore]
fn many() {
    let method = std::env::var("METHOD").unwrap_or("HASH".into());
    let mut best = f64::MAX;
    for _ in 0..15 {
        let mut store = TestStore::new();
        store.changes.wants = crate::keyspace::Wants::empty();
        store.run(&format!("CREATE TABLE t (a INT PRIMARY KEY USING {method}, b INT, c INT)"));
        let values: Vec<DatumRef<'_>> = (0..600_000i64).map(DatumRef::Int).collect();
        let at = std::time::Instant::now();
        for slice in values.chunks(30_000) {
            crate::sql::many::execute(&mut store, b"INSERT INTO t VALUES (?, ?, ?)", slice).unwrap();
        }
        best = best.min(at.elapsed().as_nanos() as f64 / 200_000.0);
    }
    eprintln!("{best:.0} ns a row");
}
