mod bad_input;
mod combinations;
mod hostile;
mod regressions;
