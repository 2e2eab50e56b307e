// The tokens of the user, for an admin those of all users.

import { useSignal } from '@preact/signals';
import { escapeLine, formatDate, formatTokenEnd } from '../../app/format.ts';
import type { CreatedToken, TokenView } from '../../app/tokens.ts';
import { day } from '../../core/model/time.ts';
import { lowerRole, roles, type Role } from '../../core/model/user.ts';
import { now } from '../clock.ts';
import { Command, PageCommand } from '../parts/command.tsx';
import { Confirm } from '../parts/dialog.tsx';
import { Empty, Failure } from '../parts/messages.tsx';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { Age } from '../parts/time.tsx';
import { actorOf, client, errorLines, session } from '../session.ts';

export function TokensPage() {
  const tokens = useReading(() => client.tokens(), []);
  const answer = useSignal<readonly string[] | null>(null);
  const revoked = useSignal<TokenView | null>(null);
  const revoke = async ({ id }: TokenView): Promise<void> => {
    revoked.value = null;
    answer.value = null;
    await client.revokeToken(id).catch((error: unknown) => (answer.value = errorLines(error)));
    tokens.again();
  };
  const columns = tokenColumns((token) => (revoked.value = token));
  const question = revoked.value;
  return (
    <section class="page">
      <div class="bar">
        <h1>Tokens</h1>
        <PageCommand text="jobman token list" />
      </div>
      <NewToken onCreated={tokens.again} />
      {answer.value !== null && <Failure lines={answer.value} retry={null} />}
      <Shown reading={tokens}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty command="jobman token create">
              No tokens yet. A token is a credential for programs and for other machines.
            </Empty>
          ) : (
            <PlainTable
              label="Tokens"
              rows={rows}
              columns={columns}
              keyOf={({ id }) => id}
              rowClass={(token) => (counts(token) ? '' : 'quiet')}
            />
          )
        }
      </Shown>
      {question !== null && (
        <Confirm
          title={`Revoke the token ${question.name} of ${question.user}?`}
          lines={['Every program and machine that uses this token loses access with its next request.']}
          action={`Revoke ${question.name}`}
          onConfirm={() => void revoke(question)}
          onClose={() => (revoked.value = null)}
        />
      )}
    </section>
  );
}

function counts({ revokedAt, expiresAt }: TokenView): boolean {
  return revokedAt === null && expiresAt > now.value;
}

function tokenColumns(onRevoke: (token: TokenView) => void): readonly PlainColumn<TokenView>[] {
  return [
    { title: 'Token', hint: ({ id }) => id, cell: ({ name }) => escapeLine(name) },
    { title: 'User', cell: ({ user }) => escapeLine(user) },
    { title: 'Role', wide: true, cell: ({ role }) => role },
    { title: 'Created', wide: true, cell: ({ createdAt }) => formatDate(createdAt, now.value) },
    { title: 'Expires', cell: (token) => formatTokenEnd(token, now.value) },
    {
      title: 'Last used',
      cell: ({ lastUsedAt }) =>
        lastUsedAt === null ? (
          'never'
        ) : (
          <>
            <Age at={lastUsedAt} /> ago
          </>
        ),
    },
    {
      title: '',
      cell: (token) =>
        counts(token) && (
          <button aria-label={`Revoke ${token.name}`} onClick={() => onRevoke(token)}>
            Revoke
          </button>
        ),
    },
  ];
}

const defaultDays = 90;

function NewToken({ onCreated }: { readonly onCreated: () => void }) {
  const role = actorOf(session.value)?.role ?? 'viewer';
  const name = useSignal('');
  const wanted = useSignal<Role>(role);
  const days = useSignal(String(defaultDays));
  const created = useSignal<CreatedToken | null>(null);
  const isBusy = useSignal(false);
  const failure = useSignal<readonly string[] | null>(null);
  const create = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    failure.value = null;
    try {
      created.value = await client.createToken({
        role: wanted.value,
        validForMs: Number(days.value) * day,
        ...(name.value.trim() === '' ? {} : { name: name.value.trim() }),
      });
      name.value = '';
      onCreated();
    } catch (error) {
      failure.value = errorLines(error);
    }
    isBusy.value = false;
  };
  return (
    <>
      <form class="line" aria-label="New token" onSubmit={(event) => void create(event)}>
        <label>
          Name
          <input
            placeholder="laptop"
            value={name.value}
            onInput={(event) => (name.value = event.currentTarget.value)}
          />
        </label>
        <label>
          Role
          <select value={wanted.value} onChange={(event) => (wanted.value = event.currentTarget.value as Role)}>
            {roles
              .filter((one) => lowerRole(one, role) === one)
              .map((one) => (
                <option key={one}>{one}</option>
              ))}
          </select>
        </label>
        <label>
          Valid for days
          <input
            type="number"
            min="1"
            max="366"
            required
            value={days.value}
            onInput={(event) => (days.value = event.currentTarget.value)}
          />
        </label>
        <button class="primary">Create a token</button>
      </form>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      {created.value !== null && (
        <section class="message notice" role="status">
          <p>This is the token {created.value.view.name}. Store it now: it is not shown again.</p>
          <Command text={created.value.token} what="token" />
          <button onClick={() => (created.value = null)}>I have stored it</button>
        </section>
      )}
    </>
  );
}
