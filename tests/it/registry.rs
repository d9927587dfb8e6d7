mod groups;
mod publish;
