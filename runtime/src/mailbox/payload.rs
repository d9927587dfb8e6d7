//! Values with their types erased: messages, inputs, commands and results.
//!
//! A [`Payload`] holds a value of up to four words in place, and a larger one in a block from the thread's cache, so
//! that a message costs no allocation (see [`size_classes`](crate::mem::size_classes)). The type is represented by the
//! address of a table. Types are compared by `TypeId`, since such addresses are not unique.
//!
//! Only this module erases and restores types. All its `unsafe` rests on one invariant, established by
//! [`Payload::new`]: *`data` holds a valid `T` (in place, or by a pointer to its block) exactly when `table` is the
//! one made for `T`*.
//!
//! A large value is moved twice between the sender's argument and the method's parameter: into its block, which is
//! allocated before the value is constructed ([`MessagePlace`]), and out of it ([`HeldMessage::take`]).

use crate::observe::spans::{self, Origin};
use crate::sync::{AtomicPtr, Ordering};
use crate::util::block::{Block, EmptyBlock};
use crate::util::debug::impl_debug;
use crate::util::notifiers;
use crate::util::panics::{Site, ignore};
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};

const INLINE_BYTES: usize = 4 * size_of::<usize>();

type Data = MaybeUninit<[usize; 4]>;

struct TypeTable {
    /// The type of the value, or [`Traced`] of that type.
    type_id: TypeId,
    traced: Option<&'static TracedTable>,
    type_name: fn() -> &'static str,
    /// Whether the value is a copy that a periodic timer sent to one process: see [`Payload::tick`].
    is_tick: bool,
    /// Whether the value is in a block rather than in place.
    is_in_block: bool,
    /// Drops the value, wherever it is stored.
    drop: unsafe fn(*mut Data),
}

struct TableOf<T>(T);

impl<T> TableOf<T> {
    const IN_PLACE: bool = size_of::<T>() <= INLINE_BYTES && align_of::<T>() <= align_of::<Data>();

    /// Returns the address of the value.
    ///
    /// # Safety
    /// `data` holds a valid `T`.
    #[inline]
    unsafe fn place(data: *mut Data) -> NonNull<T> {
        // SAFETY: by the caller's promise, `data` holds an aligned `T`, or the pointer to its block.
        unsafe { if Self::IN_PLACE { NonNull::new_unchecked(data.cast()) } else { data.cast::<NonNull<T>>().read() } }
    }

    /// # Safety
    /// `data` holds a valid `T`, and that value is not used afterwards.
    #[inline]
    unsafe fn read(data: *mut Data) -> T {
        // SAFETY: the caller's promise; a `T` that is not in place is in a block without another owner.
        unsafe {
            let place = Self::place(data);
            if Self::IN_PLACE { place.read() } else { Block::from_raw(place).into_value() }
        }
    }

    /// # Safety
    /// `data` holds a valid `T`, and that value is not used afterwards.
    unsafe fn drop_value(data: *mut Data) {
        // SAFETY: as in `read`.
        unsafe {
            let place = Self::place(data);
            if Self::IN_PLACE { place.drop_in_place() } else { drop(Block::from_raw(place)) }
        }
    }
}

impl<T: Send + 'static> TableOf<T> {
    const TABLE: &'static TypeTable = &Self::table(false);
    const TICK: &'static TypeTable = &Self::table(true);

    const fn table(is_tick: bool) -> TypeTable {
        TypeTable {
            type_id: TypeId::of::<T>(),
            traced: None,
            type_name: std::any::type_name::<T>,
            is_tick,
            is_in_block: !Self::IN_PLACE,
            drop: Self::drop_value,
        }
    }
}

/// Returns whether a message of this type is held in place rather than in a block.
#[inline(always)]
pub(crate) const fn is_in_place<M>() -> bool {
    TableOf::<M>::IN_PLACE
}

/// The place of a value that has not been constructed yet. Used by generated code.
///
/// The place is allocated first, so that the fields of a large value are moved directly to it, rather than assembled
/// elsewhere.
pub struct MessagePlace<M>(Option<EmptyBlock<M>>);

impl<M> MessagePlace<M> {
    /// Allocates the place.
    #[inline(always)]
    #[allow(clippy::new_without_default, reason = "it takes memory")]
    pub fn new() -> Self {
        Self((!TableOf::<M>::IN_PLACE).then(EmptyBlock::new))
    }

    /// Stores the value in the place.
    #[inline(always)]
    pub fn fill(self, value: M) -> HeldMessage<M> {
        let mut data = Data::uninit();
        match self.0 {
            // SAFETY: `data` is large enough and aligned for an `M`, by `IN_PLACE`.
            None => unsafe { data.as_mut_ptr().cast::<M>().write(value) },
            // SAFETY: `data` is large enough and aligned for a pointer.
            Some(block) => unsafe { data.as_mut_ptr().cast::<NonNull<M>>().write(block.fill(value).into_raw()) },
        }
        HeldMessage { data, of: PhantomData }
    }
}

/// A value as a payload holds it, in place or in a block, with its type known. Used by generated code.
pub struct HeldMessage<M> {
    data: Data,
    of: PhantomData<M>,
}

impl<M> HeldMessage<M> {
    #[inline(always)]
    pub(crate) fn new(value: M) -> Self {
        MessagePlace::new().fill(value)
    }

    #[inline]
    pub(crate) fn get(&self) -> &M {
        // SAFETY: the data holds an `M`, and the borrow of `self` covers it.
        unsafe { TableOf::<M>::place(ptr::from_ref(&self.data).cast_mut()).as_ref() }
    }

    #[inline(always)]
    fn into_data(self) -> Data {
        ManuallyDrop::new(self).data
    }

    #[inline(always)]
    pub(crate) fn into_value(self) -> M {
        // SAFETY: the data holds an `M`, and is not used afterwards.
        unsafe { TableOf::<M>::read(&mut self.into_data()) }
    }

    /// Moves the value out. If it was in a block, the block is returned when the second part of the result is dropped.
    /// Because that happens later, a value that is destructured at once is moved directly to its fields' destinations.
    #[inline(always)]
    pub fn take(self) -> (M, Option<EmptyBlock<M>>) {
        let mut data = self.into_data();
        // SAFETY: the data holds an `M`, which is moved out and then not used.
        unsafe {
            let place = TableOf::<M>::place(&mut data);
            let empty = if TableOf::<M>::IN_PLACE { None } else { Some(EmptyBlock::from_raw(place)) };
            (place.read(), empty)
        }
    }
}

impl<M> Drop for HeldMessage<M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the data holds an `M`, and is not used afterwards.
        unsafe { TableOf::<M>::drop_value(&mut self.data) }
    }
}

impl_debug!([M] MessagePlace<M>, self => "MessagePlace" { is_block: self.0.is_some() });
impl_debug!([M] HeldMessage<M>, self => "HeldMessage" { type_name: std::any::type_name::<M>() });

/// The type of a value, in a word that other threads may read. It can only be converted to the type's name.
pub(crate) struct TypeMark(AtomicPtr<TypeTable>);

impl TypeMark {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn set(&self, payload: &Payload) {
        self.0.store(ptr::from_ref(payload.table).cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set_to<T: Send + 'static>(&self) {
        self.0.store(ptr::from_ref(TableOf::<T>::TABLE).cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
    }

    pub(crate) fn name(&self) -> Option<&'static fn() -> &'static str> {
        // SAFETY: only addresses of tables are stored. Tables are constants of the program, and are never written.
        unsafe { self.0.load(Ordering::Relaxed).as_ref() }.map(|table: &'static TypeTable| &table.type_name)
    }
}

/// A value of any `Send` type, with the type erased.
///
/// A payload takes 40 bytes; values of up to 32 bytes are held in place, larger ones through a pointer.
///
/// ```
/// use postroom::Payload;
///
/// let payload = Payload::new(7_i64);
/// assert!(payload.is::<i64>());
/// let payload = payload.take::<String>().unwrap_err(); // another type: the payload comes back
/// assert_eq!(payload.take::<i64>().ok(), Some(7));
/// ```
pub struct Payload {
    table: &'static TypeTable,
    data: Data,
}

const _: () = assert!(size_of::<Payload>() == 40);

// SAFETY: `new` takes only values that are `Send`, and a payload gives no shared access to its value.
unsafe impl Send for Payload {}

impl Payload {
    /// Packs `value`.
    #[inline]
    pub fn new<T: Send + 'static>(value: T) -> Self {
        if is_packed::<T>() {
            let value = ManuallyDrop::new(value);
            // SAFETY: `T` is `Packed`, as was just checked, and the value is moved once.
            return unsafe { ptr::from_ref(&*value).cast::<Packed>().read() }.into_payload();
        }
        Self::of(HeldMessage::new(value))
    }

    /// Packs a value that is already stored in the form that payloads use.
    #[inline(always)]
    pub(crate) fn of<T: Send + 'static>(held: HeldMessage<T>) -> Self {
        Self { table: TableOf::<T>::TABLE, data: held.into_data() }
    }

    /// Packs a message that the calling thread sends.
    #[inline(always)]
    pub(crate) fn sent<T: Send + 'static>(message: T) -> Self {
        // A `Packed` message was packed before a subscriber existed, so it has no origin.
        if spans::may_be_wanted() && !is_packed::<T>() {
            return Self::traced(message);
        }
        Self::new(message)
    }

    /// Packs a copy that a periodic timer sends to one process. A successor of that process has timers of its own, so
    /// the copy is of no use to it. The table marks such copies, so that other messages pay nothing for the mark.
    pub(crate) fn tick<T: Send + 'static>(message: T) -> Self {
        debug_assert!(!is_packed::<T>(), "a timer knows the type");
        let mut payload = Self::sent(message);
        // Both tables are made for the type of this value.
        if payload.is_traced::<T>() {
            payload.table = TableOf::<Traced<T>>::TRACED_TICK;
            return payload;
        }
        payload.table = TableOf::<T>::TICK;
        payload
    }

    /// Returns whether the payload was made by [`tick`](Self::tick).
    pub(crate) fn is_tick(&self) -> bool {
        self.table.is_tick
    }

    /// Returns whether the value is a `T`.
    #[inline]
    pub fn is<T: 'static>(&self) -> bool {
        self.is_traced::<T>() || self.holds::<T>()
    }

    /// Returns whether `data` holds a `T` itself, rather than a traced one.
    #[inline(always)]
    fn holds<T: 'static>(&self) -> bool {
        self.table.type_id == TypeId::of::<T>()
    }

    /// Returns the constant that names the value's type.
    pub(crate) fn name_of(&self) -> &'static fn() -> &'static str {
        &self.table.type_name
    }

    /// Returns the `TypeId` of the value.
    pub fn value_type(&self) -> TypeId {
        self.traced_by().map_or(self.table.type_id, |traced| traced.type_id)
    }

    /// Returns the name of the value's type.
    pub fn type_name(&self) -> &'static str {
        (self.table.type_name)()
    }

    /// Unpacks the value if it is a `T`.
    ///
    /// # Errors
    /// Returns the payload, untouched, if its value is of another type.
    #[inline]
    pub fn take<T: Send + 'static>(self) -> Result<T, Self> {
        if is_packed::<T>() {
            let packed = ManuallyDrop::new(Packed::of_payload(self)?);
            // SAFETY: as in `new`, in the opposite direction.
            return Ok(unsafe { ptr::from_ref(&*packed).cast::<T>().read() });
        }
        if !self.holds::<T>() {
            return if self.is_traced::<T>() { self.take_traced() } else { Err(self) };
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the table is that of `T`, so `data` holds a valid `T`; `this` is never dropped.
        Ok(unsafe { TableOf::<T>::read(&mut this.data) })
    }

    /// Takes the value out of `place` if it is a `T`, reading it directly from there.
    #[inline]
    pub(crate) fn take_from<T: Send + 'static>(place: &mut Option<Self>) -> Option<T> {
        let Some(payload) = place.as_mut().filter(|payload| payload.holds::<T>()) else {
            return Self::take_traced_from(place);
        };
        // SAFETY: the table is that of `T`, so `data` holds a valid `T`; the payload is forgotten below.
        let value = unsafe { TableOf::<T>::read(&mut payload.data) };
        // SAFETY: the payload's value has been moved out, so it is overwritten and not dropped.
        unsafe { std::ptr::write(place, None) };
        Some(value)
    }

    /// Takes the value out of `place` if it is a `T`; a value in a block stays in its block.
    #[inline(always)]
    pub(crate) fn hold_from<T: Send + 'static>(place: &mut Option<Self>) -> Option<HeldMessage<T>> {
        let Some(payload) = place.as_mut().filter(|payload| payload.holds::<T>()) else {
            return Self::take_traced_from(place).map(HeldMessage::new);
        };
        // The table is that of `T`, so `data` holds a valid `T`.
        let held = HeldMessage { data: payload.data, of: PhantomData };
        // SAFETY: the payload's value has another owner, so it is overwritten and not dropped.
        unsafe { ptr::write(place, None) };
        Some(held)
    }

    /// Returns a reference to the value if it is a `T`.
    ///
    /// # Safety
    /// The value may not be `Sync`, so the caller must own the payload, even though it passes only a shared reference.
    pub(crate) unsafe fn peek<T: Send + 'static>(&self) -> Option<&T> {
        // SAFETY: the table is that of `T`, so `data` holds a valid `T`, which is borrowed together with the payload.
        self.holds::<T>().then(|| unsafe { TableOf::<T>::place(ptr::from_ref(&self.data).cast_mut()).as_ref() })
    }

    /// Returns a reference to the value if it is a `T`. The value may not be `Sync`, so the borrow is exclusive.
    pub fn get_mut<T: Send + 'static>(&mut self) -> Option<&mut T> {
        if self.is_traced::<T>() {
            // SAFETY: the table is that of `Traced<T>`, so `data` holds a valid one, and `&mut self` is exclusive.
            return Some(unsafe { &mut TableOf::<Traced<T>>::place(&mut self.data).as_mut().value });
        }
        // SAFETY: as above, and `&mut self` is exclusive.
        self.holds::<T>().then(|| unsafe { TableOf::<T>::place(&mut self.data).as_mut() })
    }
}

/// A message in its block, with its type erased, for functions that take messages of any type. [`Payload::new`] turns
/// a `Packed` into a payload of its message, and [`Payload::take`] converts a payload back. So large messages of all
/// types share one instance of such functions, and are passed in two registers.
pub(crate) struct Packed {
    table: &'static TypeTable,
    block: NonNull<u8>,
}

// SAFETY: it was made from a `T: Send`, and gives no access to that value.
unsafe impl Send for Packed {}

impl Packed {
    /// Packs a message that is held in a block.
    #[inline(always)]
    pub(crate) fn of<T: Send + 'static>(held: HeldMessage<T>) -> Self {
        debug_assert!(!TableOf::<T>::IN_PLACE, "it is in a block");
        let data = held.into_data();
        // SAFETY: the data holds the pointer of a block.
        Self { table: TableOf::<T>::TABLE, block: unsafe { data.as_ptr().cast::<NonNull<u8>>().read() } }
    }

    #[inline(always)]
    pub(crate) fn into_payload(self) -> Payload {
        let this = ManuallyDrop::new(self);
        let mut data = Data::uninit();
        // SAFETY: `data` is large enough and aligned for a pointer.
        unsafe { data.as_mut_ptr().cast::<NonNull<u8>>().write(this.block) };
        Payload { table: this.table, data }
    }

    /// Packs a value that is in a block. Returns the payload if it is not, since a send may return a payload other than
    /// the one that was sent.
    #[inline(always)]
    fn of_payload(payload: Payload) -> Result<Self, Payload> {
        if !payload.table.is_in_block {
            return Err(payload);
        }
        let this = ManuallyDrop::new(payload);
        // SAFETY: the value is in a block, so the data holds its pointer.
        Ok(Self { table: this.table, block: unsafe { this.data.as_ptr().cast::<NonNull<u8>>().read() } })
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        let Self { table, block } = *self;
        drop(Self { table, block }.into_payload());
    }
}

/// Returns whether `T` is [`Packed`]. In optimized code, this is a constant.
#[inline(always)]
fn is_packed<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<Packed>()
}

/// A message with its origin (feature `spans`). It is in a block, since neither a node nor a payload has room for
/// another word. Its payload behaves like that of a `T`.
struct Traced<T> {
    origin: Origin,
    value: T,
}

/// The table of a [`Traced`] message.
struct TracedTable {
    /// The type of the message.
    type_id: TypeId,
    /// Returns the origin.
    ///
    /// # Safety
    /// The data holds a valid value of the table's type.
    origin: unsafe fn(*mut Data) -> Origin,
}

impl<T: Send + 'static> TableOf<Traced<T>> {
    const TRACED_BY: &'static TracedTable = &TracedTable { type_id: TypeId::of::<T>(), origin: Self::origin };
    const TRACED: &'static TypeTable = &Self::traced_table(false);
    const TRACED_TICK: &'static TypeTable = &Self::traced_table(true);

    const fn traced_table(is_tick: bool) -> TypeTable {
        TypeTable {
            type_id: TypeId::of::<Traced<T>>(),
            traced: Some(Self::TRACED_BY),
            type_name: std::any::type_name::<T>,
            is_tick,
            is_in_block: !Self::IN_PLACE,
            drop: Self::drop_value,
        }
    }

    /// # Safety
    /// `data` holds a valid value.
    unsafe fn origin(data: *mut Data) -> Origin {
        // SAFETY: the caller's promise.
        unsafe { Self::place(data).as_ref() }.origin.clone()
    }
}

impl Payload {
    #[cold]
    #[inline(never)]
    fn traced<T: Send + 'static>(message: T) -> Self {
        Self::with_origin(message, Origin::of_thread())
    }

    /// Packs a message with its origin, if it has one.
    pub(crate) fn with_origin<T: Send + 'static>(value: T, origin: Option<Origin>) -> Self {
        let Some(origin) = origin else { return Self::new(value) };
        let mut payload = Self::new(Traced { origin, value });
        payload.table = TableOf::<Traced<T>>::TRACED;
        payload
    }

    pub(crate) fn origin(&self) -> Option<Origin> {
        let traced = self.traced_by()?;
        // SAFETY: the table is that of the value, and has a `TracedTable`, so the value is a traced one.
        Some(unsafe { (traced.origin)(ptr::from_ref(&self.data).cast_mut()) })
    }

    /// Returns the table of a traced message. Without the feature `spans`, no message is traced.
    #[inline(always)]
    fn traced_by(&self) -> Option<&'static TracedTable> {
        if cfg!(feature = "spans") { self.table.traced } else { None }
    }

    #[inline(always)]
    fn is_traced<T: 'static>(&self) -> bool {
        self.traced_by().is_some_and(|traced| traced.type_id == TypeId::of::<T>())
    }

    #[cold]
    fn take_traced<T: Send + 'static>(self) -> Result<T, Self> {
        if !self.is_traced::<T>() {
            return Err(self);
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the table is that of `Traced<T>`, so `data` holds a valid one; `this` is never dropped.
        let Traced { value, .. } = unsafe { TableOf::<Traced<T>>::read(&mut this.data) };
        Ok(value)
    }

    #[inline(always)]
    fn take_traced_from<T: Send + 'static>(place: &mut Option<Self>) -> Option<T> {
        place.take_if(|payload| payload.is_traced::<T>())?.take_traced().ok()
    }
}

/// Contains a panic in the drop of the value: payloads are dropped where work must continue, such as when a queue is
/// emptied or an answer comes too late. The panic hook has already reported the panic.
impl Drop for Payload {
    #[inline]
    fn drop(&mut self) {
        if notifiers::is_needed() {
            return self.drop_elsewhere();
        }
        let (drop, data) = (self.table.drop, &raw mut self.data);
        // SAFETY: `data` holds a value of the table's type, and the payload is not used afterwards.
        ignore(Site::ValueDrop, || unsafe { drop(data) });
    }
}

impl Payload {
    /// Drops the value on another thread, because its drop is user code, and this thread must not run user code.
    #[cold]
    #[inline(never)]
    fn drop_elsewhere(&mut self) {
        // SAFETY: the caller is `drop`, which no longer uses `self`, so the value has one owner.
        let moved = unsafe { ptr::read(self) };
        notifiers::notify(Box::new(move || drop(moved)));
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({})", self.type_name())
    }
}

/// The inputs of an entry that is started by name, in order. Created by [`payloads!`](crate::payloads).
#[derive(Debug, Default)]
pub struct Payloads(Vec<Payload>);

impl Payloads {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a value at the end.
    pub fn push<T: Send + 'static>(&mut self, value: T) {
        self.0.push(Payload::new(value));
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<Payload>> for Payloads {
    fn from(payloads: Vec<Payload>) -> Self {
        Self(payloads)
    }
}

impl FromIterator<Payload> for Payloads {
    fn from_iter<I: IntoIterator<Item = Payload>>(payloads: I) -> Self {
        Self(payloads.into_iter().collect())
    }
}

impl IntoIterator for Payloads {
    type Item = Payload;
    type IntoIter = std::vec::IntoIter<Payload>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Packs values as the inputs of an entry: `payloads![100, "text".to_string()]`.
///
/// Integers are converted to the input's type if nothing is lost, and a `&'static str` to `String`.
#[macro_export]
macro_rules! payloads {
    ($($value:expr),* $(,)?) => {
        $crate::Payloads::from(::std::vec![$($crate::Payload::new($value)),*])
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Debug, PartialEq)]
    #[repr(align(64))]
    struct Aligned(u8);

    #[test]
    fn values_of_every_size_and_alignment_come_back() {
        assert_eq!(Payload::new(()).take::<()>().ok(), Some(()));
        assert_eq!(Payload::new([7_u64; 4]).take::<[u64; 4]>().ok(), Some([7; 4]));
        assert_eq!(Payload::new([7_u64; 5]).take::<[u64; 5]>().ok(), Some([7; 5]));
        assert_eq!(Payload::new(Aligned(3)).take::<Aligned>().ok(), Some(Aligned(3)));
        let mut payload = Payload::new(vec![1]);
        payload.get_mut::<Vec<i32>>().unwrap().push(2);
        assert!(payload.get_mut::<Vec<u32>>().is_none());
        assert_eq!(payload.take::<Vec<i32>>().ok(), Some(vec![1, 2]));
    }

    /// Catches: a traced value that is read as if it had no origin, and one that is dropped twice.
    #[cfg(feature = "spans")]
    #[test]
    fn a_traced_value_passes_for_one_of_its_type() {
        fn traced<T: Send + 'static>(value: T) -> Payload {
            Payload::with_origin(value, Some(Origin::nowhere()))
        }
        assert_eq!(traced(()).take::<()>().ok(), Some(()));
        assert_eq!(traced([7_u64; 600]).take::<[u64; 600]>().ok(), Some([7; 600]));
        assert_eq!(traced(Aligned(3)).take::<Aligned>().ok(), Some(Aligned(3)));
        let mut payload = traced(vec![1]);
        assert!(payload.is::<Vec<i32>>() && !payload.is::<Vec<u32>>() && payload.origin().is_some());
        assert_eq!((payload.value_type(), payload.type_name()), (TypeId::of::<Vec<i32>>(), "alloc::vec::Vec<i32>"));
        payload.get_mut::<Vec<i32>>().unwrap().push(2);
        assert!(payload.get_mut::<Vec<u32>>().is_none());
        let mut place = Some(payload.take::<Vec<u32>>().unwrap_err());
        assert_eq!(Payload::take_from::<Vec<u32>>(&mut place), None);
        assert_eq!(Payload::take_from(&mut place), Some(vec![1, 2]));
        assert!(place.is_none());
        let value = Arc::new(());
        let held = Payload::hold_from::<(Arc<()>, [u64; 600])>(&mut Some(traced((value.clone(), [0_u64; 600]))));
        assert!(held.is_some());
        drop((held, traced(value.clone()), traced(value.clone()).take::<u8>()));
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_value_is_dropped_once_whether_taken_refused_or_left() {
        let value = Arc::new(());
        let big = || (value.clone(), [0_u64; 8]);
        drop(Payload::new(value.clone()));
        drop(Payload::new(big()));
        drop(Payload::new(big()).take::<u8>());
        drop(Payload::new(big()).take::<(Arc<()>, [u64; 8])>());
        assert_eq!(Arc::strong_count(&value), 1);
    }

    /// Catches: a block that is freed before its value was moved out, and a value that is dropped in its place although
    /// it has been taken.
    #[test]
    fn a_held_value_is_dropped_once_whether_taken_packed_or_left() {
        fn all<T: Send + 'static>(value: &Arc<()>, make: impl Fn(Arc<()>) -> T) {
            let held = || MessagePlace::<T>::new().fill(make(value.clone()));
            assert_eq!(Arc::strong_count(value), 1);
            let (taken, empty) = held().take();
            drop(empty);
            assert_eq!(Arc::strong_count(value), 2);
            drop((taken, held(), held().into_value(), Payload::of(held()), MessagePlace::<T>::new()));
            let mut place = Some(Payload::of(held()));
            assert!(Payload::hold_from::<u8>(&mut place).is_none());
            let again = Payload::hold_from::<T>(&mut place);
            assert!(again.is_some() && place.is_none());
            drop(again);
            if is_in_place::<T>() {
                assert!(Payload::of(held()).take::<Packed>().is_err());
            } else {
                let packed = Payload::new(Packed::of(held()));
                drop(Packed::of(held()));
                assert!(packed.is::<T>());
                drop(packed.take::<Packed>().map(|packed| packed.into_payload().take::<T>()));
            }
            assert_eq!(Arc::strong_count(value), 1);
        }
        let value = Arc::new(());
        all(&value, |value| value);
        all(&value, |value| (value, [0_u64; 8]));
        all(&value, |value| (value, [0_u64; 600]));
        all(&value, |value| (value, Aligned(0)));
    }
}
