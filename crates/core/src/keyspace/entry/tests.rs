//! Tests of entries: every length, every way to change one.

use super::*;
use crate::env::Xoshiro;
use crate::value::list::Side;
use crate::value::{Edit, List, Thresholds};

/// What a value reads as.
fn text(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Bytes(bytes) => bytes.to_vec(),
        ValueRef::Int(n) => n.to_string().into_bytes(),
        ValueRef::Value(_) => b"(collection)".to_vec(),
    }
}

fn list() -> Value {
    let mut list = List::new();
    list.push(Side::Back, &[&[7; 100][..]; 3], &mut Edit::silent(&Thresholds::default()));
    Value::List(Box::new(list))
}

#[test]
fn sixteen_and_thirty_two_bytes_take_sixty_four_with_or_without_a_deadline() {
    let (key, value) = ([b'k'; 16], [b'v'; 32]);
    for at in [None, Some(1)] {
        assert_eq!(Entry::new(&key, EntryValue::Bytes(&value), at).as_ref().memory(), 64);
        assert_eq!(
            Entry::new(&key, EntryValue::Bytes(b"123456789"), at).as_ref().memory(),
            [32, 48][at.is_some() as usize]
        );
        assert_eq!(Entry::new(&key, EntryValue::Value(list()), at).as_ref().memory(), 48);
    }
    assert_eq!(size_of::<Option<Entry>>(), 8);
}

#[test]
fn every_length_of_key_and_value_reads_back() {
    let bytes: Vec<u8> = (0..3000u32).map(|i| (i % 251) as u8 | 0x80).collect();
    for key_len in (0..40).chain([100, 253, 254, 255, 256, 257, 900, 980, 1000, 1012, 1013, 1024, 2000]) {
        for value_len in (0..70).chain([127, 128, 255, 256, 500, 760, 950, 980, 1000, 1016, 1017, 1025, 3000]) {
            for at in [None, Some(i64::MIN), Some(-1)] {
                let (key, value) = (&bytes[..key_len], &bytes[3000 - value_len..]);
                let entry = Entry::new(key, EntryValue::Bytes(value), at);
                let read = entry.as_ref();
                assert_eq!((read.key(), read.value(), read.expire_at()), (key, ValueRef::Bytes(value), at));
                assert_eq!(read.memory() % 8, 0);
                let (value_out, at_out) = entry.into_parts();
                assert_eq!((value_out, at_out), (Value::Str(Str::new(value)), at));
            }
        }
    }
}

#[test]
fn only_canonical_integers_become_integers() {
    for n in [0, 1, -1, 9, 10, i64::MAX, i64::MIN, i64::MIN + 1] {
        let entry = Entry::new(b"k", EntryValue::Bytes(n.to_string().as_bytes()), None);
        assert_eq!(entry.as_ref().value(), ValueRef::Int(n));
    }
    let no: [&[u8]; 12] = [
        b"",
        b"-",
        b"-0",
        b"00",
        b"01",
        b"+1",
        b" 1",
        b"1 ",
        b"1a",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"12345678901234567890",
    ];
    for bytes in no {
        assert_eq!(Entry::new(b"k", EntryValue::Bytes(bytes), None).as_ref().value(), ValueRef::Bytes(bytes));
    }
}

#[test]
fn a_short_string_moved_in_becomes_compact() {
    let string = |bytes: &[u8]| EntryValue::Value(Value::Str(Str::new(bytes)));
    let mut entry = Entry::new(b"k", string(b"short"), None);
    assert!(!entry.as_ref().is_boxed());
    entry.set_value(string(&[b'x'; 2000]));
    assert!(entry.as_ref().is_boxed());
    entry.set_value(string(b"12"));
    assert_eq!(entry.as_ref().value(), ValueRef::Int(12));
    // One that is changed in place stays boxed, for it may grow; moved to another entry it still shows that.
    match entry.promote() {
        Value::Str(string) => string.append(b"", &mut Edit::silent(&Thresholds::default())).unwrap(),
        _ => unreachable!(),
    };
    assert!(entry.as_ref().is_boxed());
    entry.set_expire(Some(1));
    assert_eq!((entry.as_ref().encoding(), text(entry.as_ref().value())), ("raw", b"12".to_vec()));
    let moved = Entry::new(b"k2", EntryValue::Value(entry.take_value()), None);
    assert_eq!(moved.as_ref().encoding(), "raw");
}

#[test]
fn the_clock_and_the_epoch_stay_out_of_each_others_way() {
    let mut entry = Entry::new(b"key", EntryValue::Bytes(b"value"), Some(12));
    entry.as_ref().set_access(u32::MAX);
    entry.as_ref().set_epoch(0xABCD);
    for step in 0..3 {
        let read = entry.as_ref();
        assert_eq!((read.access(), read.epoch(), read.key()), (0xFF_FFFF, 0xABCD, &b"key"[..]));
        match step {
            0 => entry.set_value(EntryValue::Bytes(&[b'x'; 600])),
            _ => entry.set_expire(None),
        }
    }
    entry.as_ref().set_access(5);
    assert_eq!((entry.as_ref().access(), entry.as_ref().epoch()), (5, 0xABCD));
    assert_eq!(text(entry.as_ref().value()), [b'x'; 600]);
}

#[test]
fn random_changes_agree_with_a_model() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = Xoshiro::from_seed(seed);
        let lengths = [0, 1, 5, 16, 30, 60, 250, 254, 255, 300, 900, 990, 1010, 1100];
        let key = vec![b'k'; lengths[random.below(lengths.len() as u64) as usize]];
        let mut entry = Entry::new(&key, EntryValue::Bytes(b"start"), None);
        let (mut value, mut at) = (b"start".to_vec(), None);
        for _ in 0..400 {
            let new = match random.below(4) {
                0 => (random.next() as i64 >> random.below(63)).to_string().into_bytes(),
                1 => vec![b'v'; random.below(80) as usize],
                2 => vec![b'w'; random.below(1100) as usize],
                _ => value.clone(),
            };
            let new_at = (random.below(2) == 0).then(|| random.next() as i64);
            match random.below(8) {
                0 => {
                    entry.set_value(EntryValue::Bytes(&new));
                    value = new;
                }
                1 | 2 => {
                    entry.set_expire(new_at);
                    at = new_at;
                }
                3 => {
                    if entry.replace_string(&new) {
                        value = new;
                    }
                }
                4 => {
                    entry.set(EntryValue::Bytes(&new), new_at);
                    (value, at) = (new, new_at);
                }
                5 => {
                    *entry.promote() = Value::Str(Str::new(&new));
                    value = new;
                }
                6 => {
                    entry.set_value(EntryValue::Value(list()));
                    assert_eq!(entry.as_ref().value(), ValueRef::Value(&list()));
                    assert_eq!(entry.take_value(), list());
                    value = Vec::new();
                }
                _ => {
                    assert_eq!(entry.take_value(), Value::Str(Str::new(&value)));
                    assert_eq!(text(entry.as_ref().value()), b"");
                    entry.set_value(EntryValue::Bytes(&value));
                }
            }
            let read = entry.as_ref();
            assert_eq!((read.key(), text(read.value()), read.expire_at()), (&key[..], value.clone(), at));
        }
    }
}

#[test]
fn a_much_shorter_value_frees_the_long_ones_memory() {
    let mut entry = Entry::new(b"key", EntryValue::Bytes(&[b'x'; 900]), None);
    assert!(entry.replace_string(&[b'y'; 520]));
    assert!(!entry.replace_string(&[b'y'; 100]));
    entry.set_value(EntryValue::Bytes(&[b'y'; 100]));
    assert_eq!(entry.as_ref().memory(), 112);
}
