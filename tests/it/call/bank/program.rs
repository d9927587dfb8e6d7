/// A part of a transfer, identified by the number of the transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part { Debit(u64), Credit(u64), Refund(u64) }

#[derive(Clone, Copy, Debug, PartialEq)]
enum Refused { Overdrawn, Unreachable }

#[process(skip_abandoned)]
#[derive(Default)]
struct Account { balance: i64, outcomes: HashMap<Part, Result<i64, Refused>> }

#[process]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64) { self.balance = opening; }

    #[message]
    fn balance(&self) -> i64 { self.balance }

    /// Idempotent: booking the same part again changes nothing and returns the same outcome.
    #[message]
    #[derive(Clone)]
    fn book(&mut self, part: Part, amount: i64) -> Result<i64, Refused> {
        let Self { balance, outcomes } = self;
        *outcomes.entry(part).or_insert_with(|| {
            if *balance + amount < 0 { return Err(Refused::Overdrawn) }
            *balance += amount;
            Ok(*balance)
        })
    }
}

/// Anything that accepts bookings.
type Books = Recipient<AccountBook, i64, Refused>;

#[process]
struct Transfer { from: Books, to: Books }

#[process]
impl Transfer {
    /// Moves the money, or returns it. Spawn one such process for each transfer.
    #[entry]
    async fn run(&mut self, ctx: &mut Context<Self>, id: u64, amount: i64) -> Result<(), Refused> {
        settle(ctx, self.from, AccountBook { part: Part::Debit(id), amount: -amount }).await?;
        let credited = settle(ctx, self.to, AccountBook { part: Part::Credit(id), amount }).await;
        let Err(refused) = credited else { return Ok(()) };
        // The credit was certainly not booked, and never will be: a refund is safe.
        let refund = AccountBook { part: Part::Refund(id), amount };
        while settle(ctx, self.from, refund.clone()).await.is_err() { ctx.sleep(PAUSE).await }
        Err(refused)
    }
}

/// The delay before the first repetition of a call, and the maximum. It doubles with each repetition.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Repeats the call until the outcome of the booking is certain. It is idempotent, so repeating it is harmless.
async fn settle(ctx: &Context<Transfer>, books: Books, booking: AccountBook) -> Result<(), Refused> {
    let (mut in_doubt, mut pause) = (false, PAUSE);
    loop {
        match books.call(booking.clone()).await {
            Ok(_) => return Ok(()),
            // Handled: this is the outcome.
            Err(CallError::Failed(refused)) => return Err(refused),
            Err(error) => {
                in_doubt |= error.delivery() != Delivery::NotDelivered;
                // No attempt was delivered, and the next one would not be either.
                if !in_doubt && !error.is_retryable() { return Err(Refused::Unreachable) }
            }
        }
        ctx.sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
