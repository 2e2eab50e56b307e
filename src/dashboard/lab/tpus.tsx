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
import type { LabUsage, SheetState, UsedTpu } from '../../lab/lab-usage.ts';
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
        <div class="scroll">
          <table class="plain-table cards" aria-label="TPUs">
            <thead>
              <tr>
                {['TPU', 'Booked', 'Held', 'Busy'].map((title) => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
                <td />
              </tr>
            </thead>
            <tbody>
              {shown.map((used) => (
                <TpuRow
                  key={used.tpu}
                  used={used}
                  usage={usage}
                  actor={actor}
                  programs={programs.value.get(used.tpu)}
                  onAsk={ask}
                  onCheck={(refusal) => (refusal === null ? void check(used.tpu) : (answer.value = [refusal]))}
                />
              ))}
            </tbody>
          </table>
        </div>
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

interface RowProps {
  readonly used: UsedTpu;
  readonly usage: LabUsage;
  readonly actor: Actor | null;
  readonly programs: Programs | undefined;
  /** `refusal`: the reason against it. */
  readonly onAsk: (kind: Question['kind'], used: UsedTpu, refusal: string | null) => void;
  readonly onCheck: (refusal: string | null) => void;
}

function TpuRow({ used, usage, actor, programs, onAsk, onCheck }: RowProps) {
  const { sheet } = usage;
  const { tpu, alias, aliases, accelerator, zone, booking, jobs } = used;
  const refusals = actor === null ? null : bookingRefusals(actor, sheet, used);
  const problem = actor === null ? null : generalProblem(actor, 'lab', 'use the workers of a TPU of the lab');
  const checkRefusal = problem === null ? null : `${capitalize(problem)}.`;
  const found = programs?.kind === 'found' ? programs.holders : null;
  const differences = differencesOf(used, usage, found);
  const isTaken = booking !== null && isBookedByOther(booking, null);
  const change = isTaken ? formatChange(used, now.value) : null;
  const names = [tpu, ...aliases.filter((one) => one !== alias && one !== tpu)];
  const button = (title: string, refusal: string | null, act: () => void, label = `${title} ${alias}`) => (
    <button aria-disabled={refusal !== null} title={refusal ?? undefined} aria-label={escapeLine(label)} onClick={act}>
      {title}
    </button>
  );
  return (
    <>
      <tr class={differences.length > 0 ? 'differs' : ''}>
        <th scope="row" title={escapeLine(names.join(', '))}>
          {escapeLine(alias)}
          <small class="quiet">
            {escapeLine([accelerator ?? 'unknown type', zone].filter((one) => one !== '').join(', '))}
          </small>
        </th>
        <td data-title="Booked">
          <span class={`booked-${booking?.status.kind ?? 'unknown'}`}>{escapeLine(formatBookedCell(used, sheet))}</span>
          {booking !== null && joinNotes(booking) !== '' && (
            <small class="quiet">{escapeLine(joinNotes(booking))}</small>
          )}
          {change !== null && <small class="quiet">{escapeLine(change)}</small>}
        </td>
        <td data-title="Held">
          {jobs.length === 0
            ? '-'
            : jobs.map((job) => (
                <div key={job.job}>
                  <a href={pageHref(['jobs', job.job])}>{job.job}</a> {escapeLine(job.user)}
                  {job.window !== null && `, window ${job.window}`}{' '}
                  <PhaseLabel row={{ phase: job.phase, heldCapacity: null }} />
                  <small class="quiet">{escapeLine(job.name)}</small>
                </div>
              ))}
        </td>
        <td data-title="Busy">
          <Busy used={used} programs={programs} />
        </td>
        <td class="buttons">
          {button(
            isTaken ? 'Change' : 'Book',
            refusals?.book ?? null,
            () => onAsk('book', used, refusals?.book ?? null),
            isTaken ? `Change the booking of ${alias}` : `Book ${alias}`,
          )}
          {button('Release', refusals?.release ?? null, () => onAsk('release', used, refusals?.release ?? null))}
          {button('Programs', checkRefusal, () => onCheck(checkRefusal), `Check the programs on ${alias}`)}
        </td>
      </tr>
      {differences.length > 0 && (
        <tr class="differences">
          <td colSpan={5}>
            {differences.map((line) => (
              <p key={line} class="warn">
                {escapeLine(line)}
              </p>
            ))}
          </td>
        </tr>
      )}
    </>
  );
}

function Busy({ used, programs }: Pick<RowProps, 'used' | 'programs'>) {
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
