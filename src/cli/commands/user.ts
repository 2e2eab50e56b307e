import type { Client } from '../../app/client.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { formatAge, formatLimits, pluralize } from '../../app/format.ts';
import type { AccessChange, ChangedUser, UserView } from '../../app/users.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { ownHost } from '../../core/model/spec.ts';
import type { Role } from '../../core/model/user.ts';
import { noLimits, type UserLimits } from '../../core/policy/limits.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { limitKeys } from '../completion/proposals.ts';
import type { AddUserFlags } from '../table/flags.ts';

export async function list(cli: Cli): Promise<number> {
  const users = await (await cli.services.client()).users();
  if (cli.json) {
    cli.printJsonLines(users);
    return exitCode.ok;
  }
  if (users.length === 0) {
    cli.note('You may see no registered user. An admin adds users: jobman user add NAME');
    return exitCode.ok;
  }
  const columns: readonly Column<UserView>[] = [
    { title: 'USER', text: ({ name }) => name },
    { title: 'ROLE', text: ({ role }) => role },
    { title: 'LOGINS', text: ({ logins }) => logins.join(', ') || '-' },
    { title: 'ACCOUNT', text: ({ account: name }) => name ?? '-' },
    {
      title: 'DISABLED',
      text: ({ disabledAt }) => (disabledAt === null ? '-' : `${formatAge(cli.io.now() - disabledAt)} ago`),
    },
    { title: 'LIMITS', text: ({ limits }) => formatLimits(limits) },
  ];
  cli.printAll(fittedTable(columns, users, ['LOGINS', 'ACCOUNT', 'DISABLED'], columnsOf(cli.io.stdout), 'wrap'));
  return exitCode.ok;
}

export async function add(cli: Cli, flags: AddUserFlags & GlobalFlags, name: string): Promise<number> {
  const { role, login, account: given } = flags;
  const client = await cli.services.client();
  const user = await client.addUser({
    name,
    role: role ?? 'member',
    logins: login ?? [],
    ...(given !== undefined && { account: given }),
  });
  const own = [
    ...(user.logins.length === 0 ? [] : [`the login ${user.logins.join(', ')}`]),
    ...(user.account === null ? [] : [`the account ${user.account}`]),
  ];
  printUser(
    cli,
    user,
    `Added the user ${user.name} as ${user.role}${own.length === 0 ? '' : `, with ${own.join(' and ')}`}.`,
  );
  cli.note(
    user.account === null
      ? `A token for another machine: jobman token create --user ${user.name}`
      : 'The first login with this account binds it to the person: jobman login URL',
  );
  return exitCode.ok;
}

export async function role(cli: Cli, _flags: GlobalFlags, ...[name, to]: readonly string[]): Promise<number> {
  if (name === undefined || to === undefined)
    throw usageError('Give the name of the user and the new role: jobman user role ada viewer');
  // The client refuses a text that is no role.
  return change(cli, name, { kind: 'role', role: to as Role }, ({ user, changed }) =>
    changed ? `${user.name} is now ${user.role}, from the next request on.` : `${user.name} is already ${user.role}.`,
  );
}

export async function logins(cli: Cli, _flags: GlobalFlags, ...[name, ...to]: readonly string[]): Promise<number> {
  if (name === undefined) throw usageError('Give the name of the user, and the logins: jobman user logins ada ada1');
  return change(cli, name, { kind: 'logins', logins: to }, ({ user }) =>
    user.logins.length === 0 ? `${user.name} has no logins.` : `Logins of ${user.name}: ${user.logins.join(', ')}.`,
  );
}

export async function account(cli: Cli, _flags: GlobalFlags, ...[name, to]: readonly string[]): Promise<number> {
  if (name === undefined || to === undefined)
    throw usageError('Give the name of the user and the account: jobman user account ada ada@example.com');
  return change(cli, name, { kind: 'account', account: to === 'none' ? null : to }, ({ user }) =>
    user.account === null
      ? `${user.name} has no account.`
      : `${user.name} has the account ${user.account}. The next login binds it to the person.`,
  );
}

export async function disable(cli: Cli, _flags: GlobalFlags, name: string): Promise<number> {
  const client = await cli.services.client();
  const answer = await client.changeUser(name, { kind: 'disable' });
  const { user, changed } = answer;
  const sentence = changed
    ? `Disabled ${user.name}: all tokens and logins are refused from the next request on.${await runningJobs(client, user)}`
    : `${user.name} is already disabled.`;
  printUser(cli, user, sentence);
  return exitCode.ok;
}

/** Disabling a user ends no program. */
async function runningJobs(client: Client, { name }: UserView): Promise<string> {
  const { rows } = await client.list({ user: name });
  const count = rows.filter(({ phase }) => !isFinishedPhase(phase)).length;
  return count === 0
    ? ''
    : ` ${pluralize(count, 'unfinished job')} of ${name} ${count === 1 ? 'continues' : 'continue'}.`;
}

export async function enable(cli: Cli, _flags: GlobalFlags, name: string): Promise<number> {
  return change(cli, name, { kind: 'enable' }, ({ user, changed }) =>
    changed ? `Enabled ${user.name}.` : `${user.name} is not disabled.`,
  );
}

export async function limit(cli: Cli, _flags: GlobalFlags, ...[name, ...given]: readonly string[]): Promise<number> {
  if (name === undefined) throw usageError('Give the name of the user and the limits: jobman user limit ada chips=64');
  if (given.length === 0) {
    const user = (await (await cli.services.client()).users()).find((one) => one.name === name.normalize('NFC'));
    if (user !== undefined) {
      printUser(cli, user, `${describeLimits(user)}.`);
      return exitCode.ok;
    }
  }
  return change(cli, name, { kind: 'limits', limits: parseLimits(given) }, ({ user, changed }) =>
    changed
      ? `${describeLimits(user)}. New limits apply from the next request on.`
      : `Nothing was changed. ${describeLimits(user)}.`,
  );
}

function describeLimits({ name, limits }: UserView): string {
  const text = formatLimits(limits);
  return text === '-' ? `${name} has no limits` : `Limits of ${name}: ${text}`;
}

async function change(
  cli: Cli,
  name: string,
  wanted: AccessChange,
  sentence: (answer: ChangedUser) => string,
): Promise<number> {
  const answer = await (await cli.services.client()).changeUser(name, wanted);
  printUser(cli, answer.user, sentence(answer));
  return exitCode.ok;
}

function printUser(cli: Cli, user: UserView, message: string): void {
  cli.printResult({ ...user, message }, message);
}

// ------------------------------------------------------------------------------------------ limits

/** `chips=64 projects=a,b`; `none` removes all limits, `chips=none` one. Throws JobmanError (2) with every mistake. */
function parseLimits(given: readonly string[]): Partial<UserLimits> {
  if (given.length === 1 && given[0] === 'none') return noLimits;
  const problems: string[] = [];
  const limits = given.map((text): Partial<UserLimits> => {
    const [, key = text, value = ''] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
    try {
      return parseLimit(key, value);
    } catch (error) {
      problems.push(`${text}: ${error instanceof Error ? error.message : String(error)}`);
      return {};
    }
  });
  if (problems.length > 0) throw usageError('Nothing was changed.', problems);
  return Object.assign({}, ...limits) as Partial<UserLimits>;
}

function parseLimit(key: string, value: string): Partial<UserLimits> {
  switch (key) {
    case 'chips':
    case 'jobs':
    case 'tokens':
      return { [key]: value === 'none' ? null : parseWhole(value) };
    case 'files-mib':
      return { filesMib: value === 'none' ? null : parseWhole(value) };
    case 'usd-per-day':
      return { usdPerDay: value === 'none' ? null : parseAmount(value) };
    case 'projects':
    case 'clusters':
      return { [key]: value === 'none' ? null : parseNames(value) };
    case 'hosts':
      return { hosts: value === 'none' ? null : parseNames(value).map((host) => (host === 'local' ? ownHost : host)) };
    default: {
      const near = didYouMean(key, limitKeys);
      throw new Error(
        `expected ${limitKeys.map((one) => `${one}=`).join(', ')} or none${near === undefined ? '' : `. Did you mean ${near}=?`}`,
      );
    }
  }
}

function parseWhole(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error('expected a whole number, or none');
  return Number(text);
}

function parseAmount(text: string): number {
  if (!/^\$?\d{1,9}(\.\d{1,2})?$/.test(text)) throw new Error('expected US dollars, such as 500 or 0.50, or none');
  return Number(text.replace('$', ''));
}

function parseNames(text: string): readonly string[] {
  const names = text.split(',');
  if (names.includes('')) throw new Error('expected names separated by commas, or none');
  return [...new Set(names)];
}
