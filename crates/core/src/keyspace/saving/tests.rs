//! Tests of a pass: its epochs, what goes home to it, and big values that change, move and go while they are saved.

use super::*;
use crate::keyspace::keys::Expiry;
use crate::keyspace::{Changes, Wants};
use crate::limits;

fn keyspace(keys: usize) -> Keyspace {
    let mut keyspace = Keyspace::new(2);
    (0..keys).for_each(|n| set(&mut keyspace, n, "then"));
    keyspace
}

fn set(keyspace: &mut Keyspace, n: usize, value: &str) {
    let mut changes = Changes::default();
    keyspace.keys(n % 2, 0, &mut changes).set_string(format!("k{n}").as_bytes(), value.as_bytes(), Expiry::Clear);
}

fn run(pass: &mut Pass, keyspace: &mut Keyspace) -> u64 {
    let mut keys = 0;
    let mut count = |batches: Vec<Batch>| keys += batches.iter().map(|batch| batch.keys).sum::<u64>();
    while pass.slice(keyspace, 1000) {
        count(pass.take_output());
    }
    count(pass.take_output());
    keys
}

#[test]
fn epochs_come_round_and_no_key_is_missed() {
    let mut keyspace = keyspace(50);
    keyspace.shared.epochs.last = u16::MAX - 3;
    for _ in 0..8 {
        let mut pass = Pass::begin(&mut keyspace).unwrap();
        assert_ne!(0, pass.home.epoch);
        assert_eq!(50, run(&mut pass, &mut keyspace));
    }
    assert_eq!(5, keyspace.shared.epochs.last);
}

#[test]
fn marks_of_passes_that_were_given_up_are_wiped_before_their_epoch_comes_again() {
    for ahead in [0, 1, 5, 9] {
        let mut keyspace = keyspace(50);
        for n in 0..65_535 + ahead {
            let mut pass = Pass::begin(&mut keyspace).unwrap();
            // The first ones mark some keys each.
            if n < 10 {
                pass.slice(&mut keyspace, 200);
            }
            if n % 2 == 0 {
                pass.abort(&mut keyspace);
            }
        }
        let mut pass = Pass::begin(&mut keyspace).unwrap();
        assert_eq!(ahead + 1, pass.home.epoch.into());
        assert_eq!(50, run(&mut pass, &mut keyspace));
    }
}

#[test]
fn what_waits_to_be_taken_stops_the_walk() {
    let mut keyspace = keyspace(20_000);
    (0..20_000).for_each(|n| set(&mut keyspace, n, &"long".repeat(250)));
    let mut pass = Pass::begin(&mut keyspace).unwrap();
    (0..1000).for_each(|_| assert!(pass.slice(&mut keyspace, 1 << 20)));
    let waiting: usize = pass.take_output().iter().map(|batch| batch.bytes.len()).sum();
    let most = limits::CHECKPOINT_WAITING_BYTES_MAX + (3 << 20);
    assert!((limits::CHECKPOINT_WAITING_BYTES_MAX..most).contains(&waiting), "{waiting} bytes");
    assert!(pass.slice(&mut keyspace, 1 << 20));
}

#[test]
fn an_emptied_database_comes_to_the_pass_and_one_that_is_put_back_goes_on() {
    for wants in [Wants::empty(), Wants::REDO, Wants::UNDO] {
        let mut keyspace = keyspace(1000);
        let mut pass = Pass::begin(&mut keyspace).unwrap();
        pass.slice(&mut keyspace, 500);
        let mut changes = Changes { wants, ..Changes::default() };
        keyspace.flush(0, &mut changes);
        keyspace.swap(0, 1, &mut Changes::default());
        (0..100).for_each(|n| set(&mut keyspace, n, "new"));
        if wants == Wants::UNDO {
            assert!(pass.slice(&mut keyspace, usize::MAX >> 1), "what an undo scope keeps is still to come");
        }
        drop(changes);
        assert_eq!(1000, run(&mut pass, &mut keyspace));
    }
}

#[test]
fn a_pass_costs_nothing_once_a_database_is_done_or_the_pass_is_gone() {
    let mut keyspace = keyspace(100);
    let mut pass = Pass::begin(&mut keyspace).unwrap();
    assert!(keyspace.databases.iter().all(|database| database.saver.is_some()));
    assert!(Pass::begin(&mut keyspace).is_none());
    run(&mut pass, &mut keyspace);
    assert!(keyspace.databases.iter().all(|database| database.saver.is_none()));
    drop(pass);
    let pass = Pass::begin(&mut keyspace).unwrap();
    drop(pass);
    // Nobody takes what would be saved now.
    (0..100).for_each(|n| set(&mut keyspace, n, "later"));
    assert!(keyspace.databases.iter().all(|database| database.saver.as_ref().unwrap().bytes() == 0));
}
