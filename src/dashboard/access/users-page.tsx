// The users of the server with their roles and limits. An admin changes them here.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { escapeLine, formatLimits } from '../../app/format.ts';
import type { AccessChange, UserView } from '../../app/users.ts';
import { roles, type Role } from '../../core/model/user.ts';
import type { UserLimits } from '../../core/policy/limits.ts';
import { PageCommand } from '../parts/command.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Empty, Failure } from '../parts/messages.tsx';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { Age } from '../parts/time.tsx';
import { actorOf, client, errorLines, session } from '../session.ts';

const columns: readonly PlainColumn<UserView>[] = [
  { title: 'User', cell: ({ name }) => escapeLine(name) },
  { title: 'Role', width: '8rem', cell: ({ role }) => role },
  { title: 'Account', cell: ({ account }) => escapeLine(account ?? '-') },
  { title: 'Logins', cell: ({ logins }) => escapeLine(logins.join(', ') || '-') },
  { title: 'Limits', cell: ({ limits }) => escapeLine(formatLimits(limits)) },
];

interface AdminActions {
  readonly change: (name: string, wanted: AccessChange) => Promise<void>;
  readonly onDisable: (user: UserView) => void;
  readonly onLimits: (user: UserView) => void;
}

/** With the controls of an admin. */
function adminColumns({ change, onDisable, onLimits }: AdminActions): readonly PlainColumn<UserView>[] {
  const role = ({ name, role: current }: UserView) => (
    <select
      aria-label={`Role of ${name}`}
      value={current}
      onChange={(event) => void change(name, { kind: 'role', role: event.currentTarget.value as Role })}
    >
      {roles.map((one) => (
        <option key={one}>{one}</option>
      ))}
    </select>
  );
  const buttons = (user: UserView) => (
    <>
      <button aria-label={`Limits of ${user.name}`} onClick={() => onLimits(user)}>
        Limits
      </button>
      {user.disabledAt === null ? (
        <button aria-label={`Disable ${user.name}`} onClick={() => onDisable(user)}>
          Disable
        </button>
      ) : (
        <button onClick={() => void change(user.name, { kind: 'enable' })}>
          Enable (disabled <Age at={user.disabledAt} /> ago)
        </button>
      )}
    </>
  );
  return [
    ...columns.map((column) => (column.title === 'Role' ? { ...column, cell: role } : column)),
    { title: '', width: '16rem', cell: buttons },
  ];
}

export function UsersPage() {
  const users = useReading(() => client.users(), []);
  const failure = useSignal<readonly string[] | null>(null);
  const disabled = useSignal<UserView | null>(null);
  const limited = useSignal<UserView | null>(null);
  const isAdmin = actorOf(session.value)?.role === 'admin';
  const change = async (name: string, wanted: AccessChange): Promise<void> => {
    disabled.value = failure.value = null;
    await client.changeUser(name, wanted).catch((error: unknown) => (failure.value = errorLines(error)));
    users.again();
  };
  const [toDisable, toLimit] = [disabled.value, limited.value];
  return (
    <section class="page">
      <div class="bar">
        <h1>Users</h1>
        <PageCommand text="jobman user list" />
      </div>
      {isAdmin ? <NewUser onAdded={users.again} /> : <p class="quiet">Only an admin sees and changes other users.</p>}
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      <Shown reading={users}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty command="jobman user add NAME">No users are registered.</Empty>
          ) : (
            <PlainTable
              label="Users"
              rows={rows}
              columns={
                isAdmin
                  ? adminColumns({
                      change,
                      onDisable: (user) => (disabled.value = user),
                      onLimits: (user) => (limited.value = user),
                    })
                  : columns
              }
              keyOf={({ name }) => name}
              rowClass={({ disabledAt }) => (disabledAt === null ? '' : 'quiet')}
            />
          )
        }
      </Shown>
      {toDisable !== null && (
        <Confirm
          title={`Disable ${toDisable.name}?`}
          lines={[`The server refuses all tokens and logins of ${toDisable.name}. Running jobs continue.`]}
          action={`Disable ${toDisable.name}`}
          onConfirm={() => void change(toDisable.name, { kind: 'disable' })}
          onClose={() => (disabled.value = null)}
        />
      )}
      {toLimit !== null && <Limits user={toLimit} onSaved={users.again} onClose={() => (limited.value = null)} />}
    </section>
  );
}

function NewUser({ onAdded }: { readonly onAdded: () => void }) {
  const name = useSignal('');
  const account = useSignal('');
  const role = useSignal<Role>('member');
  const failure = useSignal<readonly string[] | null>(null);
  const add = async (event: Event): Promise<void> => {
    event.preventDefault();
    failure.value = null;
    try {
      const given = account.value.trim();
      await client.addUser({ name: name.value.trim(), role: role.value, ...(given === '' ? {} : { account: given }) });
      name.value = account.value = '';
      onAdded();
    } catch (error) {
      failure.value = errorLines(error);
    }
  };
  return (
    <>
      <form class="line" aria-label="New user" onSubmit={(event) => void add(event)}>
        <label>
          Name
          <input required value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
        </label>
        <label>
          Role
          <select value={role.value} onChange={(event) => (role.value = event.currentTarget.value as Role)}>
            {roles.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <label>
          Account at the identity provider
          <input
            placeholder="ada@example.com"
            value={account.value}
            onInput={(event) => (account.value = event.currentTarget.value)}
          />
        </label>
        <button class="primary">Add a user</button>
      </form>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
    </>
  );
}

interface LimitsProps {
  readonly user: UserView;
  readonly onSaved: () => void;
  readonly onClose: () => void;
}

/** Stays open after a failure, so that nothing typed is lost. */
function Limits({ user: { name, limits }, onSaved, onClose }: LimitsProps) {
  const [chips, jobs, usd] = [useSignal(limits.chips), useSignal(limits.jobs), useSignal(limits.usdPerDay)];
  const [tokens, files] = [useSignal(limits.tokens), useSignal(limits.filesMib)];
  const [projects, clusters, hosts] = [
    useSignal(formatNames(limits.projects)),
    useSignal(formatNames(limits.clusters)),
    useSignal(formatNames(limits.hosts)),
  ];
  const failure = useSignal<readonly string[] | null>(null);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    failure.value = null;
    const wanted: UserLimits = {
      chips: chips.value,
      jobs: jobs.value,
      usdPerDay: usd.value,
      projects: parseNames(projects.value),
      clusters: parseNames(clusters.value),
      hosts: parseNames(hosts.value),
      tokens: tokens.value,
      filesMib: files.value,
    };
    try {
      await client.changeUser(name, { kind: 'limits', limits: wanted });
      onSaved();
      onClose();
    } catch (error) {
      failure.value = errorLines(error);
    }
  };
  return (
    <Dialog title={`Limits of ${name}`} onClose={onClose}>
      <form onSubmit={(event) => void save(event)}>
        <p class="quiet">An empty field means no limit. In a list of names, “none” allows no name.</p>
        <Amount value={chips}>Chips at once</Amount>
        <Amount value={jobs}>Unfinished jobs</Amount>
        <Amount value={usd}>US dollars per day</Amount>
        <Amount value={tokens}>Valid tokens</Amount>
        <Amount value={files}>MiB of uploaded files</Amount>
        <Names value={projects}>Google Cloud projects</Names>
        <Names value={clusters}>Clusters, as context or context/namespace</Names>
        <Names value={hosts}>Hosts</Names>
        {failure.value !== null && <Failure lines={failure.value} retry={null} />}
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button class="primary">Save the limits of {name}</button>
        </footer>
      </form>
    </Dialog>
  );
}

interface FieldProps<T> {
  readonly value: { value: T };
  readonly children: ComponentChildren;
}

function Amount({ value, children }: FieldProps<number | null>) {
  return (
    <label>
      {children}
      <input
        type="number"
        min="0"
        step="any"
        value={value.value ?? ''}
        onInput={({ currentTarget: { value: text } }) => (value.value = text === '' ? null : Number(text))}
      />
    </label>
  );
}

function Names({ value, children }: FieldProps<string>) {
  return (
    <label>
      {children}
      <input value={value.value} onInput={({ currentTarget }) => (value.value = currentTarget.value)} />
    </label>
  );
}

function formatNames(names: readonly string[] | null): string {
  if (names === null) return '';
  return names.length === 0 ? 'none' : names.join(', ');
}

function parseNames(text: string): readonly string[] | null {
  const names = text.split(/[\s,]+/).filter((name) => name !== '');
  if (names.length === 0) return null;
  return names.join() === 'none' ? [] : names;
}
