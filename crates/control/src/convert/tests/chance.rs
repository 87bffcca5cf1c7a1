//! Values of any type by chance, made as if they were read: whatever can be deserialised can be drawn.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::de::value::{Error, U32Deserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess, Visitor};
use std::collections::VecDeque;

/// A stream of values that a seed replays.
pub(super) struct Chance {
    random: ChaCha8Rng,
    /// What comes next instead of chance.
    fixed: VecDeque<u64>,
    /// The case of the outermost enum.
    case: Option<u64>,
    cases: u64,
    depth: u32,
}

impl Chance {
    /// Of the outermost enum, if there is one, it draws the case of this number.
    pub(super) fn new(seed: u64, case: u64) -> Chance {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Chance { random, fixed: VecDeque::new(), case: Some(case), cases: 1, depth: 0 }
    }

    /// How many cases the outermost enum has.
    pub(super) fn cases(&self) -> u64 {
        self.cases
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// Small, large and in between.
    fn number(&mut self) -> u64 {
        match self.fixed.pop_front() {
            Some(number) => number,
            None => {
                let shift = self.below(65) as u32;
                self.random.next_u64().checked_shr(shift).unwrap_or(0)
            }
        }
    }

    fn length(&mut self) -> usize {
        self.below(5) as usize
    }

    fn text(&mut self) -> String {
        let letters = ['a', '/', '\0', '\u{e4}', '\u{1f30a}'];
        (0..self.length()).map(|_| letters[self.below(letters.len() as u64) as usize]).collect()
    }
}

macro_rules! numbers {
    ($($method:ident: $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = self.number();
            visitor.$visit(number as _)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Chance {
    type Error = Error;

    numbers!(deserialize_u8: visit_u8, deserialize_u16: visit_u16, deserialize_u32: visit_u32,
        deserialize_u64: visit_u64, deserialize_i8: visit_i8, deserialize_i16: visit_i16,
        deserialize_i32: visit_i32, deserialize_i64: visit_i64);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.below(2) == 0)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u128(u128::from(self.number()) << 64 | u128::from(self.number()))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.below(2) == 0 { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.length();
        visitor.visit_seq(Items { chance: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Items { chance: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == "Striping" {
            // One of those that there can be: RAID 5, its unit, width, depth and groups.
            let (unit, width, depth) = (4096 << self.below(4), 3 + self.below(8), 1 + self.below(1000));
            let groups = 1 + self.below(30);
            self.fixed.extend([2, unit, width, depth, groups]);
        }
        self.case = None;
        visitor.visit_seq(Items { chance: self, left: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        cases: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.depth == 0 {
            self.cases = cases.len() as u64;
        }
        let case = match self.case.take().or_else(|| self.fixed.pop_front()) {
            Some(case) => case,
            None => self.below(cases.len() as u64),
        };
        visitor.visit_enum(Case { chance: self, case: (case % cases.len() as u64) as u32 })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        panic!("a type of this kind has no value by chance; give it one")
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char bytes byte_buf unit unit_struct tuple_struct map identifier ignored_any i128
    }
}

struct Items<'a> {
    chance: &'a mut Chance,
    left: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.chance.depth += 1;
        let value = seed.deserialize(&mut *self.chance);
        self.chance.depth -= 1;
        value.map(Some)
    }
}

struct Case<'a> {
    chance: &'a mut Chance,
    case: u32,
}

impl<'de> EnumAccess<'de> for Case<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let number: U32Deserializer<Error> = self.case.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for Case<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        self.chance.depth += 1;
        let value = seed.deserialize(&mut *self.chance);
        self.chance.depth -= 1;
        value
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Items { chance: self.chance, left })
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        panic!("no type of the control plane has such a case")
    }
}
