// The questions before a booking is made, changed or released. Each states what the sheet says now, and who has changed it.

import { useSignal } from '@preact/signals';
import { escapeLine } from '../../app/format.ts';
import type { Actor } from '../../core/model/user.ts';
import {
  bookingRefusals,
  bookingResult,
  formatActing,
  formatBookingNow,
  noRowError,
} from '../../lab/booking-changes.ts';
import { isBookedByOther } from '../../lab/bookings.ts';
import type { SheetState, UsedTpu } from '../../lab/lab-usage.ts';
import type { BookingCommand, SeenBooking } from '../../lab/service.ts';
import type { LabUser } from '../../lab/users.ts';
import { now } from '../clock.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Failure } from '../parts/messages.tsx';
import { client, errorLines } from '../session.ts';

interface BookingProps {
  /** As it is now; it may change while the question is open. */
  readonly used: UsedTpu;
  readonly sheet: SheetState;
  readonly users: readonly LabUser[];
  readonly actor: Actor;
  readonly onDone: (lines: readonly string[]) => void;
  readonly onChanged: () => void;
  readonly onClose: () => void;
}

type Change =
  | Pick<Extract<BookingCommand, { readonly kind: 'book' }>, 'kind' | 'user' | 'scriptNote'>
  | { readonly kind: 'release' };

/** Sends the change of the booking that the question shows. */
function useChange({ used: { tpu, booking }, sheet, onDone, onChanged }: BookingProps) {
  const failure = useSignal<readonly string[] | null>(null);
  const isBusy = useSignal(false);
  const send = async (change: Change): Promise<void> => {
    if (isBusy.value) return;
    isBusy.value = true;
    failure.value = null;
    try {
      const changed = await client.lab.changeBooking(tpu, { ...change, seen: booking && seenOf(booking) });
      if (changed === null) throw noRowError(sheet.name, tpu);
      onDone([bookingResult(sheet.name, change.kind, changed).message]);
    } catch (error) {
      failure.value = errorLines(error);
      onChanged();
    }
    isBusy.value = false;
  };
  return { failure: failure.value, send };
}

/** The API accepts no other fields. */
function seenOf({ status, user, note, scriptNote }: SeenBooking): SeenBooking {
  return { status, user, note, scriptNote };
}

export function BookDialog(props: BookingProps) {
  const { used, sheet, users, actor, onClose } = props;
  const { booking, alias } = used;
  const own = users.find(({ name }) => name === actor.user);
  const booked = users.find(({ sheetName }) => sheetName === booking?.user);
  const name = useSignal((own ?? booked ?? users[0])?.name ?? '');
  /** Null: the notes stay. */
  const note = useSignal<string | null>(null);
  const { failure, send } = useChange(props);
  const user = users.find((one) => one.name === name.value);
  const isTaking = booking !== null && user !== undefined && isBookedByOther(booking, user);
  const refusal = bookingRefusals(actor, sheet, used).book;
  const act = (event: Event): void => {
    event.preventDefault();
    const text = note.value;
    if (user === undefined || refusal !== null) return;
    void send({ kind: 'book', user: user.sheetName, ...(text === null ? {} : { scriptNote: text }) });
  };
  return (
    <Dialog title={`Book ${alias}?`} onClose={onClose}>
      <form onSubmit={act}>
        {booking !== null && <p>{escapeLine(formatBookingNow(sheet.name, booking, now.value))}</p>}
        {users.length === 0 ? (
          <p>The lab has no users yet: tpu add-user NAME</p>
        ) : (
          <label>
            User
            <select value={name.value} onChange={(event) => (name.value = event.currentTarget.value)}>
              {users.map((one) => (
                <option key={one.name} value={one.name}>
                  {escapeLine(one.name)}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          Note
          <input
            value={note.value ?? booking?.scriptNote ?? ''}
            onInput={(event) => (note.value = event.currentTarget.value)}
          />
        </label>
        {user !== undefined && user.name !== actor.user && (
          <p class="warn">{escapeLine(`${formatActing(actor.user, `book ${alias}`, user.name)}.`)}</p>
        )}
        {refusal !== null && <p class="warn">{escapeLine(refusal)}</p>}
        {failure !== null && <Failure lines={failure} retry={null} />}
        <footer>
          <button type="button" autofocus onClick={onClose}>
            Keep it as it is
          </button>
          <button class={isTaking ? 'danger' : 'primary'} aria-disabled={user === undefined || refusal !== null}>
            {escapeLine(`Book ${alias} for ${user?.name ?? '-'}${isTaking ? ' anyway' : ''}`)}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

export function ReleaseDialog(props: BookingProps) {
  const { used, sheet, actor, onClose } = props;
  const { booking, alias } = used;
  const { failure, send } = useChange(props);
  const refusal = bookingRefusals(actor, sheet, used).release;
  return (
    <Dialog title={`Release ${alias}?`} onClose={onClose}>
      {booking !== null && <p>{escapeLine(formatBookingNow(sheet.name, booking, now.value))}</p>}
      <p>Then every user may take the TPU. Its notes are removed.</p>
      {refusal !== null && <p class="warn">{escapeLine(refusal)}</p>}
      {failure !== null && <Failure lines={failure} retry={null} />}
      <footer>
        <button autofocus onClick={onClose}>
          Keep it as it is
        </button>
        <button
          class="danger"
          aria-disabled={refusal !== null}
          onClick={() => (refusal === null ? void send({ kind: 'release' }) : undefined)}
        >
          {escapeLine(`Release ${alias}`)}
        </button>
      </footer>
    </Dialog>
  );
}
