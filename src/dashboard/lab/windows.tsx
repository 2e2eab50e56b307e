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
import { client } from '../session.ts';
import { useLiveRead } from './read.ts';

interface WindowsProps {
  readonly users: readonly LabUser[];
  readonly actor: Actor | null;
}

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
        shown.map((user) => <UserSection key={user.name} user={user} actor={actor} />)
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

function UserSection({ user: { name, directories }, actor }: { readonly user: LabUser; readonly actor: Actor | null }) {
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
      {problem === null ? <UserWindows name={name} /> : <p class="quiet">{escapeLine(`${capitalize(problem)}.`)}</p>}
    </section>
  );
}

function UserWindows({ name }: { readonly name: UserName }) {
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
        <div class="scroll">
          <table class="plain-table cards" aria-label={`Windows of ${name}`}>
            <thead>
              <tr>
                {['Window', 'Job', 'Tag', 'Directory', 'TPU', 'Status', 'From'].map((title) => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <WindowRow key={attemptKey(row)} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

const statusClasses: Partial<Record<CheckRow['status']['kind'], string>> = {
  running: 'phase-running',
  succeeded: 'phase-succeeded',
  error: 'phase-failed',
};

function WindowRow({ row }: { readonly row: CheckRow }) {
  const { window, job, attempt, tag, directory, folder, tpu, tpuShort, status } = row;
  return (
    <tr>
      <th scope="row">{window ?? '-'}</th>
      <td data-title="Job">
        <a href={pageHref(['jobs', job], { attempt: String(attempt) })}>
          {job}/{attempt}
        </a>
      </td>
      <td data-title="Tag">{escapeLine(tag ?? '-')}</td>
      <td data-title="Directory" title={escapeLine(directory)}>
        {escapeLine(folder)}
      </td>
      <td data-title="TPU" title={escapeLine(tpu)}>
        {escapeLine(tpuShort)}
      </td>
      <td data-title="Status">
        <span class={statusClasses[status.kind] ?? ''}>
          {escapeLine(formatCheckStatus(row, (at) => formatTime(at, now.peek())))}
        </span>
        {explainingLines(row)
          .slice(-1)
          .map((line) => (
            <small key={line} class="quiet">
              {escapeLine(line)}
            </small>
          ))}
      </td>
      <td data-title="From">{formatLineage(row)}</td>
    </tr>
  );
}
