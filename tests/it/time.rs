mod at_once;
mod clock;
