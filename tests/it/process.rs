mod ends;
mod steps;
mod upgrade;
mod waking;
