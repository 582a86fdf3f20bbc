//! Tests of the displays: a recorded run looked at through each of them, and events at random.

mod displays;
mod random;
mod sample;
mod tables;
mod terminal;
mod view;
