// The windows of the users: the rows of `tpu check`, and the directories of `tpu ls`. The address has the user.

import { capitalize, escapeLine, formatTime } from '../../app/format.ts';
import { quote } from '../../catalogue/shell.ts';
import type { Actor, UserName } from '../../core/model/user.ts';
import type { CheckRow } from '../../lab/check-rows.ts';
import { checkRowsProblem, explainingLines, formatCheckStatus, formatLineage } from '../../lab/check-text.ts';
import { attemptKey } from '../../lab/lineage.ts';
import type { LabUser } from '../../lab/users.ts';
import { now } from '../clock.ts';
import { address, changeQuery, pageHref } from '../location.ts';
import { Command } from '../parts/command.tsx';
import { Empty, Failure, FilteredOut } from '../parts/messages.tsx';
import { Near } from '../parts/near.tsx';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { client } from '../session.ts';
import { useLiveRead } from './read.ts';

interface WindowsProps {
  readonly users: readonly LabUser[];
  readonly actor: Actor | null;
}

/** In pixels, of a user without windows. */
const sectionHeight = 70;

/** In the address: the windows of all users. */
const everyone = '*';

export function Windows({ users, actor }: WindowsProps) {
  const own = users.find(({ name }) => name === actor?.user)?.name;
  const wanted = address.value.query.get('user') ?? own ?? everyone;
  const shown = users.filter(({ name }) => wanted === everyone || name === wanted);
  return (
    <section aria-labelledby="lab-windows">
      <div class="bar">
        <h2 id="lab-windows">Windows</h2>
        <label class="switch">
          User
          <select
            aria-label="User whose windows are shown"
            value={wanted}
            onChange={(event) => changeQuery({ user: event.currentTarget.value })}
          >
            <option value={everyone}>everyone</option>
            {shown.length === 0 && <option value={wanted}>{escapeLine(wanted)}</option>}
            {users.map(({ name }) => (
              <option key={name} value={name}>
                {escapeLine(name)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {shown.length > 0 ? (
        // Only the sections near the view read their windows.
        <div>
          <Near count={shown.length} itemHeight={sectionHeight} as="div" keyOf={(index) => shown[index]?.name ?? ''}>
            {(index) => <UserSection user={shown[index] as LabUser} actor={actor} isAlone={shown.length === 1} />}
          </Near>
        </div>
      ) : users.length === 0 ? (
        <Empty command="tpu add-user NAME">The lab has no users yet.</Empty>
      ) : (
        <FilteredOut onClear={() => changeQuery({ user: everyone })}>
          The lab has no user {escapeLine(wanted)}.
        </FilteredOut>
      )}
    </section>
  );
}

interface SectionProps {
  readonly user: LabUser;
  readonly actor: Actor | null;
  readonly isAlone: boolean;
}

function UserSection({ user: { name, directories }, actor, isAlone }: SectionProps) {
  const folders = Object.entries(directories);
  const problem = actor === null ? null : checkRowsProblem(actor, name);
  return (
    <section aria-label={`Windows of ${name}`} class="user-windows">
      <div class="bar">
        <h3>{escapeLine(name)}</h3>
        <span class="quiet">
          {folders.length === 0
            ? 'no working directory'
            : folders.map(([number, folder]) => escapeLine(`${number}: ${folder}`)).join(' · ')}
        </span>
        <Command text={`tpu check ${quote(name)}`} />
      </div>
      {problem === null ? (
        <UserWindows name={name} isAlone={isAlone} />
      ) : (
        <p class="quiet">{escapeLine(`${capitalize(problem)}.`)}</p>
      )}
    </section>
  );
}

function UserWindows({ name, isAlone }: { readonly name: UserName; readonly isAlone: boolean }) {
  const { value: rows, failure, again } = useLiveRead(name, () => client.lab.checkRows(name));
  return (
    <>
      {failure !== null && <Failure lines={failure} retry={again} />}
      {rows === undefined ? (
        failure === null && <p class="quiet">Reading the windows…</p>
      ) : rows.length === 0 ? (
        <p class="quiet">
          {escapeLine(name)} has no windows. <code>tpu run TPU {quote(name)}</code> starts a job.
        </p>
      ) : (
        <PlainTable
          label={`Windows of ${name}`}
          kind="cards"
          rows={rows}
          columns={columns}
          keyOf={attemptKey}
          isOneOfMany={!isAlone}
        />
      )}
    </>
  );
}

const statusClasses: Partial<Record<CheckRow['status']['kind'], string>> = {
  running: 'phase-running',
  succeeded: 'phase-succeeded',
  error: 'phase-failed',
};

const columns: readonly PlainColumn<CheckRow>[] = [
  { title: 'Window', width: '6rem', cell: ({ window }) => window ?? '-' },
  {
    title: 'Job',
    cell: ({ job, attempt }) => (
      <a href={pageHref(['jobs', job], { attempt: String(attempt) })}>
        {job}/{attempt}
      </a>
    ),
  },
  { title: 'Tag', cell: ({ tag }) => escapeLine(tag ?? '-') },
  { title: 'Directory', hint: ({ directory }) => escapeLine(directory), cell: ({ folder }) => escapeLine(folder) },
  { title: 'TPU', hint: ({ tpu }) => escapeLine(tpu), cell: ({ tpuShort }) => escapeLine(tpuShort) },
  { title: 'Status', width: '30%', cell: (row) => <Status row={row} /> },
  { title: 'From', cell: formatLineage },
];

function Status({ row }: { readonly row: CheckRow }) {
  return (
    <>
      <span class={statusClasses[row.status.kind] ?? ''}>
        {escapeLine(formatCheckStatus(row, (at) => formatTime(at, now.peek())))}
      </span>
      {explainingLines(row)
        .slice(-1)
        .map((line) => (
          <small key={line} class="quiet">
            {escapeLine(line)}
          </small>
        ))}
    </>
  );
}
