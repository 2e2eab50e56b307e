// Errors of PostgreSQL: why a database cannot be used, with the server's own message, and never with the password.

import { quote } from '../catalogue/shell.ts';
import { StoreError, type StoreErrorKind } from '../app/errors.ts';

const wantedForm = 'postgres://USER:PASSWORD@HOST:PORT/DATABASE';

/** The URL without its password and parameters, for messages. Throws StoreError for a text of another form. */
export function displayUrl(url: string): string {
  refuseSeveralHosts(url);
  let parsed: URL;
  try {
    // The library knows this short form of a local server.
    parsed = new URL(url.replace('@/', '@localhost/'));
  } catch {
    throw wrongUrlError();
  }
  const { protocol, username, host, pathname, search, hash } = parsed;
  // A password with one of these characters was cut there.
  const isCut = hash !== '' || pathname.includes('@') || search.includes('@');
  if (isCut || !/^postgres(?:ql)?:$/.test(protocol) || pathname.length < 2) throw wrongUrlError();
  refuseUnknownMode(parsed.searchParams);
  const socket = parsed.searchParams.get('host');
  return `postgres://${username === '' ? '' : `${username}@`}${socket ?? host}${pathname}`;
}

/** libpq takes a list of hosts and uses the first that answers; the library would look up the list as one name. */
function refuseSeveralHosts(url: string): void {
  const [, authority = '', socket = ''] = /^\w+:\/\/(?:[^/?#]*@)?([^/?#]*)(?:.*[?&]host=([^&#]*))?/.exec(url) ?? [];
  if (!`${authority}${socket}`.includes(',') && !/%2c/i.test(socket)) return;
  throw new StoreError(
    'broken',
    'The URL of the database names several hosts, but jobman uses one. Nothing was changed.',
    ['Name one address that always leads to the primary server, such as that of a proxy.'],
  );
}

/** Does not repeat the URL, which may contain a password. */
function wrongUrlError(): StoreError {
  return new StoreError('broken', `The URL of the database is not of the form ${wantedForm}. Nothing was changed.`, [
    'Write special characters of the password as %XX, for example @ as %40.',
  ]);
}

/** The library would use TLS in another way than the URL says, or fail with an error of its own. */
function refuseUnknownMode(parameters: URLSearchParams): void {
  const mode = parameters.get('sslmode') ?? 'prefer';
  const isKnown = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'].includes(mode);
  if (isKnown && (mode !== 'verify-ca' || parameters.has('sslrootcert'))) return;
  throw new StoreError(
    'broken',
    `The URL of the database has sslmode=${mode}${isKnown ? ' without sslrootcert' : ''}. Nothing was changed.`,
    ['Use sslmode=verify-full, verify-ca with sslrootcert=FILE, require, prefer or disable.'],
  );
}

/** The database has tables, but none of jobman, so ours could replace or mix with them. */
export function foreignTablesError(name: string, tables: readonly string[]): StoreError {
  const names = tables.slice(0, 3).join(', ');
  return new StoreError(
    'unsupported',
    `The database ${name} contains tables of another program (${names}). Nothing was changed.`,
    ['Create a database for jobman alone: createdb jobman'],
  );
}

export function wrongEncodingError(name: string, encoding: string): StoreError {
  return new StoreError(
    'unsupported',
    `The database ${name} has the encoding ${encoding}, but jobman needs UTF8. Nothing was changed.`,
    ['Create one: createdb --encoding=UTF8 --template=template0 jobman'],
  );
}

/** The server may have committed before the connection was lost. */
export function unclearCommitError(name: string, cause: unknown): StoreError {
  return new StoreError(
    'broken',
    `The connection to the database ${name} was lost during a commit (${messageOfServer(cause)}). The change may have been made. Check it before you repeat the command.`,
    [],
    { cause },
  );
}

/** Turns a failure of the server or the connection into a StoreError. Other errors are bugs and stay. */
export function postgresError(name: string, error: unknown): unknown {
  if (error instanceof StoreError) return error;
  const reason = messageOfServer(error);
  const failure = error instanceof SyntaxError ? damaged : failureOf(error);
  if (failure === undefined) return error;
  const [kind, message, lines = []] = failure;
  const database = quote(decodeURIComponent(name.replace(/^.*\//u, '')));
  const shown = lines.map((line) => line.replace('DATABASE_NAME', () => database));
  const retryAfter = failure === unreachable || failure === notWritable ? 2 : null;
  return new StoreError(kind, message(name, reason), shown, { cause: error, retryAfter });
}

type Failure = readonly [
  kind: StoreErrorKind,
  message: (name: string, reason: string) => string,
  lines?: readonly string[],
];

const unreachable: Failure = [
  'broken',
  (name, reason) => `The database ${name} cannot be reached: ${reason}. Nothing was changed.`,
];
const locked: Failure = [
  'busy',
  (name, reason) => `The database ${name} is locked by another program (${reason}). Nothing was changed. Try again.`,
];
const refused: Failure = ['broken', (name, reason) => `The database ${name} refused the connection: ${reason}.`];
/** The library finds no password for a server that asks for one, and reports that without a code. */
const noPassword: Failure = [
  refused[0],
  (name) => `The database ${name} needs a password, and none was given. Nothing was changed.`,
  ['Set PGPASSWORD, or add a line to ~/.pgpass (mode 0600): HOST:PORT:DATABASE:USER:PASSWORD'],
];
const untrusted: Failure = [
  'broken',
  // Without Node's advice about its own flags.
  (name, reason) =>
    `The certificate of the database ${name} is not trusted: ${reason.replace(/; if .*/, '')}. Nothing was changed.`,
  ['Name the file with the certificate of its authority in the URL: ?sslmode=verify-full&sslrootcert=FILE'],
];
const notWritable: Failure = [
  'read_only',
  (name, reason) => `The database ${name} cannot be written: ${reason}. Nothing was changed.`,
];
const damaged: Failure = [
  'corrupt',
  (name, reason) => `The database ${name} is damaged (${reason}). Nothing was changed.`,
  ['Restore it from a backup of the server.'],
];
const full: Failure = [
  'full',
  (name, reason) =>
    `The disk of the database ${name} is full: ${reason}. Nothing was changed. Free some space and try again.`,
];

/**
 * By the codes of PostgreSQL (https://www.postgresql.org/docs/current/errcodes-appendix.html), the longest prefix first,
 * and those of Node for certificates.
 */
const failures: readonly (readonly [prefix: string, failure: Failure])[] = [
  [
    '23505',
    [
      'busy',
      (name, reason) =>
        `Another program wrote the same row to the database ${name} first (${reason}). Nothing was changed. Try again.`,
    ],
  ],
  ['25006', notWritable],
  [
    '42501',
    [
      notWritable[0],
      notWritable[1],
      [
        'To create the tables, the user needs all rights: create database jobman owner USER',
        'To upgrade them after an upgrade of jobman, run one command with the URL of their owner.',
      ],
    ],
  ],
  [
    'ERR_TLS_CERT',
    [untrusted[0], untrusted[1], ['The host of the URL must be one of the names in the certificate of the server.']],
  ],
  ...['CERT_', 'DEPTH_', 'SELF_SIGNED', 'UNABLE_TO'].map((prefix) => [prefix, untrusted] as const),
  ['28', [refused[0], refused[1], ['Check the user and password of the URL, PGPASSWORD, and ~/.pgpass.']]],
  ['3D000', [refused[0], refused[1], ['Create it: createdb DATABASE_NAME']]],
  ['40', locked],
  ['53100', full],
  [
    '53300',
    [
      'busy',
      (name, reason) => `The database ${name} has too many connections: ${reason}. Nothing was changed. Try again.`,
    ],
  ],
  // A database that an administrator has closed.
  ['55000', refused],
  ['55P03', locked],
  [
    '57014',
    ['busy', (name, reason) => `The database ${name} took too long (${reason}). Nothing was changed. Try again.`],
  ],
  ['08', unreachable],
  ['53', unreachable],
  ['57P', unreachable],
  ['58', unreachable],
  ['XX001', damaged],
  ['XX002', damaged],
];

function failureOf(error: unknown): Failure | undefined {
  const code = codeOf(error);
  const known = failures.find(([prefix]) => code?.startsWith(prefix) === true)?.[1];
  if (error instanceof Error && /client password must be a/u.test(error.message)) return noPassword;
  return known ?? (isConnectionLost(error) ? unreachable : undefined);
}

/** Messages of the library for a connection that is gone, which have no code. */
const connectionMessages =
  /^(?:Connection terminated|Query read timeout|Client has encountered a connection error|timeout e(?:xpired|xceeded)|The server does not support SSL)/u;

/** Names and numbers of Node for a connection that failed, of a name lookup or of TLS. */
const connectionCodes =
  /^(?:ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ENOTFOUND|EAI_|ENOENT|EACCES|CERT_|DEPTH_|SELF_SIGNED|UNABLE_TO|ERR_TLS|ERR_SSL)/u;

/** True if the connection cannot be used any more. What it had not committed is undone. */
function isConnectionLost(error: unknown): boolean {
  const code = codeOf(error);
  if (code !== undefined && /^(?:08|57P|25P03)/u.test(code)) return true;
  if (code !== undefined && connectionCodes.test(code)) return true;
  return error instanceof Error && connectionMessages.test(error.message);
}

/** True if nothing was committed and the same statements may succeed now. */
export function isRepeatable(error: unknown): boolean {
  return ['40001', '40P01'].includes(codeOf(error) ?? '') || mustReconnect(error);
}

/**
 * True for a lost connection, for one with statements that were prepared before a table got other columns, and for one
 * to a server that is now a standby: only another connection finds the one that took over.
 */
export function mustReconnect(error: unknown): boolean {
  const isOutdated = codeOf(error) === '0A000' && messageOfServer(error).includes('cached plan');
  return isOutdated || codeOf(error) === '25006' || isConnectionLost(error);
}

function codeOf(error: unknown): string | undefined {
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Node reports the failures for several addresses of a host in an error without a message. */
function messageOfServer(error: unknown): string {
  if (error instanceof AggregateError && error.message === '')
    return [...new Set((error.errors as readonly unknown[]).map(messageOfServer))].join(', ');
  return error instanceof Error ? error.message : String(error);
}
