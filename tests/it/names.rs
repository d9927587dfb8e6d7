mod addresses;
mod holders;
