// The TPUs of the lab: booked, held and busy side by side, and where these three disagree.

import { useSignal } from '@preact/signals';
import type { DeviceHolder } from '../../app/lab-job.ts';
import { capitalize, escapeLine, formatAge, pluralize } from '../../app/format.ts';
import { generalProblem } from '../../core/policy/permissions.ts';
import { quote } from '../../catalogue/shell.ts';
import type { Instant } from '../../core/model/time.ts';
import type { Actor } from '../../core/model/user.ts';
import { bookingRefusals } from '../../lab/booking-changes.ts';
import { isBookedByOther, joinNotes } from '../../lab/bookings.ts';
import { hasType } from '../../lab/find-tpus.ts';
import type { LabUsage, SheetState, UsedTpu, UsingJob } from '../../lab/lab-usage.ts';
import { formatHolders, formatUnreachable } from '../../lab/tpu-usage.ts';
import {
  differencesOf,
  formatBookedCell,
  formatChange,
  formatHiddenJobs,
  formatIdle,
  formatSheetFailure,
  idleSince,
  isBusy,
} from '../../lab/usage-text.ts';
import type { LabUser } from '../../lab/users.ts';
import { now } from '../clock.ts';
import { serverNow } from '../live.ts';
import { address, changeQuery, pageHref } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Empty, Failure, FilteredOut } from '../parts/messages.tsx';
import { PhaseLabel } from '../parts/phase.tsx';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { Since } from '../parts/time.tsx';
import { client, errorLines } from '../session.ts';
import { BookDialog, ReleaseDialog } from './booking.tsx';

interface TpusProps {
  readonly usage: LabUsage;
  readonly users: readonly LabUser[];
  readonly actor: Actor | null;
  readonly onChanged: () => void;
}

/** The programs on the devices of a TPU, after a check that a person has started. */
type Programs =
  | { readonly kind: 'checking' }
  | { readonly kind: 'failed'; readonly lines: readonly string[] }
  | {
      readonly kind: 'found';
      readonly holders: readonly DeviceHolder[];
      readonly notes: readonly string[];
      readonly at: Instant;
    };

interface Question {
  readonly kind: 'book' | 'release';
  readonly tpu: string;
}

export function Tpus({ usage, users, actor, onChanged }: TpusProps) {
  const { tpus, sheet } = usage;
  const hidden = formatHiddenJobs(usage);
  const programs = useSignal<ReadonlyMap<string, Programs>>(new Map());
  const question = useSignal<Question | null>(null);
  const answer = useSignal<readonly string[]>([]);
  const wanted = address.value.query.get('types') ?? '';
  const types = wanted.split(/\s+/).filter((type) => type !== '');
  const shown = tpus.filter(({ accelerator }) => hasType(accelerator, types));
  const check = async (tpu: string): Promise<void> => {
    const note = (found: Programs): void => void (programs.value = new Map([...programs.peek(), [tpu, found]]));
    note({ kind: 'checking' });
    try {
      const { holders, unreachable } = await client.lab.holders(tpu);
      note({ kind: 'found', holders, notes: formatUnreachable(unreachable), at: serverNow() });
    } catch (error) {
      note({ kind: 'failed', lines: errorLines(error) });
    }
  };
  const ask = (kind: Question['kind'], { tpu }: UsedTpu, refusal: string | null): void => {
    answer.value = refusal === null ? [] : [refusal];
    if (refusal !== null) return;
    question.value = { kind, tpu };
    // The question is about the booking of now.
    onChanged();
  };
  const done = (lines: readonly string[]): void => {
    question.value = null;
    answer.value = lines;
    onChanged();
  };
  const columns = tpuColumns({
    sheet,
    actor,
    programs: programs.value,
    onAsk: ask,
    onCheck: ({ tpu }, refusal) => (refusal === null ? void check(tpu) : (answer.value = [refusal])),
  });
  const open = question.value;
  const asked = open === null ? undefined : tpus.find(({ tpu }) => tpu === open.tpu);
  const dialog = asked !== undefined &&
    actor !== null && {
      used: asked,
      sheet,
      users,
      actor,
      onDone: done,
      onClose: () => (question.value = null),
      onChanged,
    };
  return (
    <section aria-label="TPUs">
      <div class="bar">
        <h1>Lab</h1>
        <span class="quiet">{formatCounts(tpus)}</span>
        <label class="switch">
          Types
          <input
            type="search"
            size={10}
            placeholder="v34 v2-32"
            value={wanted}
            onInput={(event) => changeQuery({ types: event.currentTarget.value })}
          />
        </label>
        <PageCommand text={['tpu find', ...types.map(quote)].join(' ')} />
      </div>
      <SheetNotes sheet={sheet} />
      {hidden !== null && <p class="quiet">{hidden}</p>}
      <div role="status" class="answer">
        {answer.value.map((line) => (
          <p key={line}>{escapeLine(line)}</p>
        ))}
      </div>
      {tpus.length === 0 ? (
        <Empty command="tpu register FULL-NAME zone=ZONE">
          The lab has no TPUs yet. This command registers one by its full name.
        </Empty>
      ) : shown.length === 0 ? (
        <FilteredOut onClear={() => changeQuery({ types: null })}>
          None of {tpus.length} TPUs has the type {escapeLine(wanted)}.
        </FilteredOut>
      ) : (
        <PlainTable
          label="TPUs"
          kind="cards"
          rows={shown}
          columns={columns}
          keyOf={({ tpu }) => tpu}
          below={(used) => differencesOf(used, usage, holdersOf(programs.value.get(used.tpu)))}
        />
      )}
      {dialog !== false && open?.kind === 'book' && <BookDialog key={open.tpu} {...dialog} />}
      {dialog !== false && open?.kind === 'release' && <ReleaseDialog key={open.tpu} {...dialog} />}
    </section>
  );
}

function formatCounts(tpus: readonly UsedTpu[]): string {
  const free = tpus.filter(({ booking, jobs }) => booking?.status.kind === 'free' && jobs.length === 0);
  const idle = tpus.filter((used) => idleSince(used) !== undefined);
  return `${pluralize(tpus.length, 'TPU')}: ${free.length} free, ${idle.length} booked and idle`;
}

function SheetNotes({ sheet }: { readonly sheet: SheetState }) {
  const failure = formatSheetFailure(sheet, now.value);
  const notes = [
    ...sheet.problems.map((one) => `${capitalize(sheet.name)}, ${one}.`),
    ...sheet.late.map(({ message }) => message),
  ];
  return (
    <>
      {failure.length > 0 && <Failure lines={failure} retry={null} />}
      {notes.map((note) => (
        <p key={note} class="warn">
          {escapeLine(note)}
        </p>
      ))}
    </>
  );
}

interface ColumnOptions {
  readonly sheet: SheetState;
  readonly actor: Actor | null;
  readonly programs: ReadonlyMap<string, Programs>;
  /** `refusal`: the reason against it. */
  readonly onAsk: (kind: Question['kind'], used: UsedTpu, refusal: string | null) => void;
  readonly onCheck: (used: UsedTpu, refusal: string | null) => void;
}

function holdersOf(programs: Programs | undefined): readonly DeviceHolder[] | null {
  return programs?.kind === 'found' ? programs.holders : null;
}

function tpuColumns({ sheet, actor, programs, onAsk, onCheck }: ColumnOptions): readonly PlainColumn<UsedTpu>[] {
  const problem = actor === null ? null : generalProblem(actor, 'lab', 'use the workers of a TPU of the lab');
  const checkRefusal = problem === null ? null : `${capitalize(problem)}.`;
  return [
    {
      title: 'TPU',
      width: '13rem',
      hint: ({ tpu, alias, aliases }) =>
        escapeLine([tpu, ...aliases.filter((one) => one !== alias && one !== tpu)].join(', ')),
      cell: ({ alias, accelerator, zone }) => (
        <>
          {escapeLine(alias)}
          <small class="quiet">
            {escapeLine([accelerator ?? 'unknown type', zone].filter((one) => one !== '').join(', '))}
          </small>
        </>
      ),
    },
    { title: 'Booked', cell: (used) => <Booked used={used} sheet={sheet} /> },
    {
      title: 'Held',
      cell: ({ jobs }) => (jobs.length === 0 ? '-' : jobs.map((job) => <Held key={job.job} {...job} />)),
    },
    { title: 'Busy', cell: (used) => <Busy used={used} programs={programs.get(used.tpu)} /> },
    {
      title: '',
      width: '19.5rem',
      cell: (used) => {
        const { alias, booking } = used;
        const { book, release } = (actor === null ? null : bookingRefusals(actor, sheet, used)) ?? noRefusals;
        const isTaken = booking !== null && isBookedByOther(booking, null);
        return (
          <>
            <Act
              title={isTaken ? 'Change' : 'Book'}
              label={isTaken ? `Change the booking of ${alias}` : `Book ${alias}`}
              refusal={book}
              act={() => onAsk('book', used, book)}
            />
            <Act
              title="Release"
              label={`Release ${alias}`}
              refusal={release}
              act={() => onAsk('release', used, release)}
            />
            <Act
              title="Programs"
              label={`Check the programs on ${alias}`}
              refusal={checkRefusal}
              act={() => onCheck(used, checkRefusal)}
            />
          </>
        );
      },
    },
  ];
}

const noRefusals = { book: null, release: null };

interface ActProps {
  readonly title: string;
  readonly label: string;
  /** Null: nothing is against it. */
  readonly refusal: string | null;
  readonly act: () => void;
}

function Act({ title, label, refusal, act }: ActProps) {
  return (
    <button aria-disabled={refusal !== null} title={refusal ?? undefined} aria-label={escapeLine(label)} onClick={act}>
      {title}
    </button>
  );
}

function Booked({ used, sheet }: { readonly used: UsedTpu; readonly sheet: SheetState }) {
  const { booking } = used;
  const change = booking !== null && isBookedByOther(booking, null) ? formatChange(used, now.value) : null;
  const notes = booking === null ? '' : joinNotes(booking);
  return (
    <>
      <span class={`booked-${booking?.status.kind ?? 'unknown'}`}>{escapeLine(formatBookedCell(used, sheet))}</span>
      {notes !== '' && <small class="quiet">{escapeLine(notes)}</small>}
      {change !== null && <small class="quiet">{escapeLine(change)}</small>}
    </>
  );
}

function Held({ job, user, window, phase, name }: UsingJob) {
  return (
    <div>
      <a href={pageHref(['jobs', job])}>{job}</a> {escapeLine(user)}
      {window !== null && `, window ${window}`} <PhaseLabel row={{ phase, heldCapacity: null }} />
      <small class="quiet">{escapeLine(name)}</small>
    </div>
  );
}

function Busy({ used, programs }: { readonly used: UsedTpu; readonly programs: Programs | undefined }) {
  const busy = used.jobs.filter(isBusy);
  const isIdle = idleSince(used) !== undefined;
  return (
    <>
      {busy.map(({ job, phaseStartedAt }) => (
        <div key={job}>
          {job} for <Since at={phaseStartedAt} />
        </div>
      ))}
      {busy.length === 0 && <span class={isIdle ? 'warn' : 'quiet'}>{formatIdle(used, now.value)}</span>}
      {programs !== undefined && (
        <div role="status" class="programs">
          {programs.kind === 'checking' && <small class="quiet">Checking the programs on its workers…</small>}
          {programs.kind === 'failed' &&
            programs.lines.map((line) => (
              <small key={line} class="warn">
                {escapeLine(line)}
              </small>
            ))}
          {programs.kind === 'found' &&
            [
              ...(programs.holders.length === 0 ? ['no program uses its devices'] : formatHolders(programs.holders)),
              ...programs.notes,
            ].map((line) => (
              <small key={line}>
                {escapeLine(line)} <span class="quiet">({formatAge(now.value - programs.at)} ago)</span>
              </small>
            ))}
        </div>
      )}
    </>
  );
}
