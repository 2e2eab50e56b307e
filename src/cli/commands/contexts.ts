// Servers that a user has logged in to, and the one that commands use.

import { resolve } from 'node:path';
import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError, messageOf, reworded, usageError } from '../../app/errors.ts';
import { formatExpiry } from '../../app/format.ts';
import {
  contextNamePattern,
  contextOf,
  formatServer,
  serverVariable,
  thisMachine,
  type Context,
  type Contexts,
} from '../../app/server-in-use.ts';
import type { ServerContexts } from '../../app/services.ts';
import type { TokenView } from '../../app/tokens.ts';
import type { Actor } from '../../core/model/user.ts';
import { readAuthorities } from '../../files/certificates.ts';
import { readRegularFile } from '../../files/files.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { canAsk, readHidden } from '../prompt.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { LoginFlags, LogoutFlags } from '../table/flags.ts';

const maxTokenBytes = 4096;

export async function logIn(cli: Cli, flags: LoginFlags & GlobalFlags, target: string): Promise<number> {
  const { name, ca: caFile } = flags;
  const contexts = await cli.services.contexts();
  // First, so that no user types a token that is then not stored.
  const all = await contexts.read();
  const context = contextFor(all, target, name);
  const { url } = context;
  contexts.requireUrl(url);
  const ca = caFile === undefined ? (all.contexts[context.name]?.ca ?? null) : readCa(resolve(cli.io.cwd, caFile), url);
  const token =
    (await logInAsPerson(cli, flags, contexts, {
      server: url,
      ca,
      token: all.contexts[context.name]?.token ?? null,
    })) ?? (await readToken(cli, flags.tokenFile, `Token for ${url} (not shown)`));
  const { actor, view } = await tryToken(contexts.clientOf({ server: url, token, ca }), url);
  const stored: Context = { server: url, token, user: actor.user, tokenName: actor.token?.name ?? null, ca };
  await contexts.change((now) => ({
    current: context.name,
    contexts: { ...now.contexts, [context.name]: stored },
  }));
  const server = formatServer({ context: context.name, url });
  cli.printResult(
    { context: context.name, server: url, user: actor.user, role: actor.role, token: tokenOutput(actor, view) },
    `Logged in to ${server} as ${actor.user}, with the role ${actor.role}${formatToken(cli, actor, view)}.`,
  );
  cli.note(
    'Commands now use that server. For one command on this machine: --server local; for all: jobman context use local',
  );
  noteVariable(cli, context.name);
  return exitCode.ok;
}

/** Throws JobmanError if the address or the name does not fit the stored contexts. */
function contextFor(all: Contexts, target: string, given: string | undefined): { name: string; url: string } {
  if (!target.includes('://')) {
    const known = all.contexts[target];
    if (known === undefined)
      throw usageError(`${target} is neither the address of a server nor a context.`, [
        `The address of a server begins with https://, as in: jobman login https://jobman.example`,
        ...contextLines(all),
      ]);
    if (given !== undefined && given !== target)
      throw usageError(`${target} is a context already: leave out --name, or give the address.`);
    return { name: target, url: known.server };
  }
  const url = target.replace(/\/+$/, '');
  const name = given ?? contextOf(all, url) ?? URL.parse(url)?.host ?? '';
  if (!contextNamePattern.test(name) || name === thisMachine)
    throw usageError(`${JSON.stringify(name)} cannot be the name of a context. Give another one: --name lab`, [
      'A name has letters, digits and . _ : -, begins with a letter or a digit, and is not `local`.',
    ]);
  const other = all.contexts[name]?.server;
  if (other !== undefined && contextOf({ current: name, contexts: all.contexts }, url) !== name)
    throw new JobmanError(`The context ${name} already names another server, ${other}.`, exitCode.conflict, [
      'Give another name: --name NAME',
      `Or delete that context first: jobman context delete ${name}`,
    ]);
  return { name, url };
}

/** Throws JobmanError (2). */
function readCa(path: string, url: string): string {
  if (!url.startsWith('https:')) throw usageError(`--ca needs an address with https, and ${url} has none.`);
  try {
    return readAuthorities(path);
  } catch (error) {
    throw usageError(`The certificates of --ca cannot be used: ${messageOf(error)}. Nothing was stored.`);
  }
}

/** The token of a login with an account; null if the token comes from a file, a pipe or the keyboard. Throws JobmanError. */
async function logInAsPerson(
  cli: Cli,
  { tokenFile, browser = false, device = false }: LoginFlags,
  contexts: ServerContexts,
  server: Pick<Context, 'server' | 'ca' | 'token'>,
): Promise<string | null> {
  const isChosen = browser || device;
  if (browser && device) throw usageError('Choose one of --browser and --device.');
  if (isChosen && tokenFile !== undefined)
    throw usageError('--token-file cannot be combined with --browser or --device.');
  if (isChosen && cli.json) throw usageError('--json cannot show a page or a code. Pass a token: --token-file FILE');
  if (!isChosen && (tokenFile !== undefined || cli.json || !canAsk(cli))) return null;
  const login = contexts.loginAt(server);
  let remedies: readonly string[] = [];
  try {
    const { oidc } = await login.methods();
    if (oidc === null && !isChosen) return null;
    remedies = [`With a token instead: jobman login ${server.server} --token-file -`];
    if (oidc === null) throw new JobmanError(`${server.server} has no identity provider.`, exitCode.conflict);
    const { machine } = contexts;
    const { logInByBrowser, logInByDevice } = await import('./person-login.ts');
    const isHere = browser || (!device && machine.hasBrowser);
    return await (isHere ? logInByBrowser : logInByDevice)({ cli, login, url: server.server, machine });
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    throw withNothingStored(error, error.code === exitCode.interrupted ? [] : remedies);
  } finally {
    login.close();
  }
}

async function readToken(cli: Cli, file: string | undefined, question: string): Promise<string> {
  const bytes =
    file === undefined || file === '-'
      ? await readHidden(cli, question, maxTokenBytes)
      : readTokenFile(resolve(cli.io.cwd, file));
  const token = Buffer.from(bytes).toString('utf8').trim();
  if (token === '')
    throw usageError('There is no token in the input. Nothing was stored.', [
      'To create a token: jobman token create, on the machine of the server',
      'To log in with an account instead: --browser, or --device on a machine without one',
    ]);
  return token;
}

function readTokenFile(path: string): Uint8Array {
  try {
    return readRegularFile(path, maxTokenBytes);
  } catch (error) {
    throw usageError(`The file with the token cannot be read: ${messageOf(error)}`);
  }
}

interface TokenFacts {
  readonly actor: Actor;
  readonly view: TokenView | null;
}

/** Throws JobmanError if the server does not accept the token. */
async function tryToken(client: Client, url: string): Promise<TokenFacts> {
  try {
    return await tokenFacts(client);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const isRefused = error.code === exitCode.conflict;
    throw withNothingStored(
      error,
      isRefused ? [`To create a token: jobman token create, on the machine of ${url}`] : [],
    );
  } finally {
    await client.close();
  }
}

function withNothingStored(error: JobmanError, remedies: readonly string[] = []): JobmanError {
  return reworded(error, { lines: [...error.lines, 'Nothing was stored.', ...remedies] });
}

async function tokenFacts(client: Client): Promise<TokenFacts> {
  const actor = await client.whoAmI();
  if (actor.token === undefined) return { actor, view: null };
  const tokens = await client.tokens();
  return { actor, view: tokens.find(({ id }) => id === actor.token?.id) ?? null };
}

function tokenOutput({ token }: Actor, view: TokenView | null) {
  return token === undefined ? null : { id: token.id, name: token.name, expiresAt: view?.expiresAt ?? null };
}

function formatToken(cli: Cli, { token }: Actor, view: TokenView | null): string {
  if (token === undefined) return '';
  const expiry = view === null ? '' : `, which expires on ${formatExpiry(view.expiresAt, cli.io.now())}`;
  return `, with the token ${token.name}${expiry}`;
}

export async function logOut(
  cli: Cli,
  { revoke }: LogoutFlags & GlobalFlags,
  named: string | undefined,
): Promise<number> {
  const contexts = await cli.services.contexts();
  const all = await contexts.read();
  const name = named ?? all.current;
  if (name === null) throw usageError('Which context? Commands use this machine.', contextLines(all));
  const stored = requireContext(all, name);
  const { server: url, token, user, tokenName, ca } = stored;
  const server = formatServer({ context: name, url });
  if (token === null) {
    cli.printResult({ context: name, revoked: false }, `You are already logged out of ${server}.`);
    return exitCode.ok;
  }
  if (revoke === true) await revokeToken(contexts.clientOf({ server: url, token, ca }), name);
  await contexts.change((now) => ({
    ...now,
    contexts: { ...now.contexts, [name]: { ...stored, token: null } },
  }));
  cli.printResult({ context: name, revoked: revoke === true }, `Logged out of ${server}.`);
  if (revoke !== true) noteToken(cli, { user, tokenName });
  return exitCode.ok;
}

/** Does nothing for a token that the server no longer accepts. */
async function revokeToken(client: Client, name: string): Promise<void> {
  const ignoreRefusal = (error: unknown) => {
    if (error instanceof JobmanError && error.code === exitCode.conflict) return null;
    throw error;
  };
  try {
    const actor = await client.whoAmI().catch(ignoreRefusal);
    if (actor?.token !== undefined) await client.revokeToken(actor.token.id);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const remedy = `Nothing was changed. Without revoking it: jobman logout ${name}`;
    throw reworded(error, { lines: [...error.lines, remedy] });
  } finally {
    await client.close();
  }
}

/** The stored name belongs to another token only if a person has edited the file. */
function noteToken(cli: Cli, { user, tokenName }: Pick<Context, 'user' | 'tokenName'>): void {
  const command = `jobman token revoke ${tokenName ?? 'NAME'}${user === null ? '' : ` --user ${user}`}`;
  cli.note(`The token stays valid until it expires. To revoke it: ${command}, on the machine of the server`);
}

export async function whoAmI(cli: Cli): Promise<number> {
  const { services } = cli;
  const server = await services.server();
  const { actor, view } = await tokenFacts(await services.client());
  const { user, role, login = null } = actor;
  if (cli.json) {
    cli.printJson({
      user,
      role,
      login,
      token: tokenOutput(actor, view),
      context: server?.context ?? null,
      server: server?.url ?? null,
      home: server === null ? services.home : null,
    });
    return exitCode.ok;
  }
  const expiry = view === null ? '' : `, expires on ${formatExpiry(view.expiresAt, cli.io.now())}`;
  const rows = [
    ['user', user],
    ['role', role],
    ...(login === null || login === user ? [] : [['login', login]]),
    ...(actor.token === undefined ? [] : [['token', `${actor.token.name}${expiry}`]]),
    server === null
      ? ['server', `this machine (${services.home})`]
      : ['server', `${formatServer(server)}, by ${formatChoice(server.chosenBy)}`],
  ];
  cli.printAll(rows.map(([title = '', text = '']) => `${title.padEnd(8)}${text}`));
  return exitCode.ok;
}

function formatChoice(chosenBy: string): string {
  return chosenBy === 'current context' ? 'the current context' : chosenBy;
}

export async function list(cli: Cli): Promise<number> {
  const all = await (await cli.services.contexts()).read();
  // Commands would use this server even if it cannot be used.
  const server = await cli.services.server().catch((error: unknown) => {
    if (error instanceof JobmanError) return undefined;
    throw error;
  });
  const used = server === undefined ? all.current : server === null ? thisMachine : server.context;
  const rows = [
    { context: thisMachine, server: null, user: null, isCurrent: used === thisMachine, isLoggedIn: true },
    ...Object.entries(all.contexts).map(([name, { server: url, user, token }]) => {
      return { context: name, server: url, user, isCurrent: used === name, isLoggedIn: token !== null };
    }),
  ];
  if (cli.json) {
    cli.printJsonLines(rows);
    return exitCode.ok;
  }
  const columns: readonly Column<(typeof rows)[number]>[] = [
    { title: '', text: ({ isCurrent }) => (isCurrent ? '*' : '') },
    { title: 'CONTEXT', text: ({ context }) => context },
    { title: 'SERVER', text: ({ server: url }) => url ?? `this machine (${cli.services.home})` },
    { title: 'USER', text: ({ user, isLoggedIn }) => (isLoggedIn ? (user ?? '-') : 'logged out') },
  ];
  cli.printAll(fittedTable(columns, rows, [], columnsOf(cli.io.stdout)));
  const { current } = all;
  if (used !== (current ?? thisMachine)) noteVariable(cli, current ?? thisMachine);
  return exitCode.ok;
}

export async function use(cli: Cli, _flags: GlobalFlags, name: string): Promise<number> {
  const isLocal = name === thisMachine;
  const contexts = await cli.services.contexts();
  // Outside of the change, because a home without the file needs none.
  const all = await contexts.read();
  const server = isLocal ? null : requireContext(all, name).server;
  if (all.current !== (isLocal ? null : name))
    await contexts.change((now) => ({ ...now, current: isLocal ? null : name }));
  const message =
    server === null
      ? `Commands now use this machine (${cli.services.home}).`
      : `Commands now use ${formatServer({ context: name, url: server })}.`;
  cli.printResult({ context: name, server, message }, message);
  noteVariable(cli, name);
  return exitCode.ok;
}

export async function remove(cli: Cli, _flags: GlobalFlags, name: string): Promise<number> {
  if (name === thisMachine) throw usageError(`${thisMachine} is this machine, which has no context to delete.`);
  const contexts = await cli.services.contexts();
  const all = await contexts.read();
  const { token, server, ...owner } = requireContext(all, name);
  await contexts.change(({ current, contexts: { [name]: _deleted, ...others } }) => ({
    current: current === name ? null : current,
    contexts: others,
  }));
  const isCurrent = all.current === name;
  const message = `Deleted the context ${name}.${isCurrent ? ' It was the current one: commands now use this machine.' : ''}`;
  cli.printResult({ context: name, server, message }, message);
  if (token !== null) noteToken(cli, owner);
  return exitCode.ok;
}

/** Without this note, a command would seem to have no effect. */
function noteVariable(cli: Cli, name: string): void {
  const variable = cli.io.env[serverVariable] ?? '';
  if (variable !== '' && variable !== name)
    cli.note(`${serverVariable} is ${variable} and comes first. To use ${name}: unset ${serverVariable}`);
}

function requireContext(all: Contexts, name: string): Context {
  const found = all.contexts[name];
  if (found !== undefined) return found;
  throw new JobmanError(`There is no context ${name}.`, exitCode.notFound, contextLines(all));
}

function contextLines({ contexts }: Contexts): readonly string[] {
  const names = Object.keys(contexts);
  return names.length === 0
    ? ['There are no contexts. To log in to a server: jobman login URL']
    : [`Contexts: ${names.join(', ')}`];
}
