// Logins by OpenID Connect, on the side of the server. Between the steps of a login its state is in the database, so the
// steps may reach different servers. See docs/decisions/oidc.md.

import { createHash, randomBytes } from 'node:crypto';
import { day, minute, type Duration, type Instant } from '../core/model/time.ts';
import type { Actor, Role, UserName } from '../core/model/user.ts';
import { auditEntry } from './audit.ts';
import { JobmanError } from './errors.ts';
import {
  groupRoleOf,
  identityOf,
  loginRefused,
  newUserOf,
  shown,
  type Claims,
  type DeviceLogin,
  type DevicePending,
  type Identity,
  type IdentityProvider,
  type LoginSecrets,
  type OidcSettings,
} from './oidc.ts';
import type { AccessStore, LogInChange } from './ports.ts';
import { createAuthenticate, createToken, revokeToken, type TokenView } from './tokens.ts';

/** A login in a browser: for `jobman login`, or for the dashboard in this browser. */
type BrowserLogin = (CliTarget | PageTarget) & {
  /** The secret of the browser, which the pages of other sites cannot read. */
  readonly browser: string;
  /** The address of this server to which the provider sends the browser. */
  readonly redirectUri: string;
  /** The token of the browser's session, which the login replaces. */
  readonly session?: string;
};

export interface CliTarget {
  /** The port at which the CLI listens on its own machine. */
  readonly port: number;
  /** The state of the CLI, which gets it back (RFC 6749). */
  readonly state: string;
  /** SHA-256 of a secret of the CLI (RFC 7636). */
  readonly challenge: string;
}

interface PageTarget {
  /** Path and query of the page that opens after the login. */
  readonly page: string;
}

type FinishedLogin =
  /** The address of the CLI, with a one-time code, even after a failure. */
  { readonly kind: 'cli'; readonly url: string } | ({ readonly kind: 'page'; readonly token: string } & PageTarget);

interface IssuedToken {
  readonly token: string;
  readonly view: TokenView;
}

/** Each method throws JobmanError with a sentence for the person who logs in. */
export interface Logins {
  readonly issuer: string;
  /** Returns the address at the provider; after a failure, the address of the CLI, as from `finish`. */
  start(login: BrowserLogin): Promise<string>;
  finish(callback: URLSearchParams, browser: string): Promise<FinishedLogin>;
  /**
   * The code works once, and a wrong verifier uses it up. `replaced`: the stored token of the CLI, which is revoked if an
   * earlier login from that machine has created it.
   */
  redeem(code: string, verifier: string, tokenName: string, replaced?: string): Promise<IssuedToken>;
  startDevice(): Promise<DeviceLogin>;
  /** `replaced`: as for `redeem`. */
  redeemDevice(deviceCode: string, tokenName: string, replaced?: string): Promise<IssuedToken | DevicePending>;
}

/** The same, as `jobman login` has it over HTTP. */
export interface ServerLogin extends Pick<Logins, 'startDevice'> {
  redeem(code: string, verifier: string, tokenName: string): Promise<IssuedToken>;
  redeemDevice(deviceCode: string, tokenName: string): Promise<IssuedToken | DevicePending>;
  /** Null if the server has no identity provider. */
  methods(): Promise<LoginMethods>;
  close(): void;
}

interface LoginMethods {
  readonly oidc: { readonly issuer: string } | null;
}

export interface LoginParts {
  readonly access: AccessStore;
  readonly provider: () => Promise<IdentityProvider>;
  readonly settings: OidcSettings;
  readonly now: () => Instant;
  /** One line about a login that failed. */
  readonly warn: (line: string) => void;
}

/** A step of a login that waits for the next one. */
export interface PendingLogin {
  /** A hash, so that a reader of the database cannot continue the login. */
  readonly id: string;
  /** `callback`: the person is at the provider; `code`: the CLI may redeem it. */
  readonly kind: 'callback' | 'code';
  readonly validForMs: Duration;
  /** JSON. */
  readonly body: string;
}

interface AwaitedCallback extends LoginSecrets, Pick<BrowserLogin, 'redirectUri'> {
  readonly target: CliTarget | PageTarget;
  /** The session that the login replaces; null without one. */
  readonly replaced: Actor | null;
}

interface AwaitedCode {
  readonly challenge: string;
  readonly user: { readonly name: UserName; readonly role: Role } | null;
  readonly failure: Pick<JobmanError, 'message' | 'code' | 'lines' | 'errorCode'> | null;
}

/** Time for the login at the provider, perhaps with a second factor. */
export const loginTime = 10 * minute;
/** Validity of a code, which the CLI redeems at once. */
const codeTime = minute;
/** Every visitor can begin logins, so new ones replace the oldest. */
const maxPending = 2000;
const defaultTokenDays = 30;
const browserTokenName = 'browser';

/** True for a token that a login in a browser has created, which only a session of the dashboard has. */
export function isBrowserToken(name: string): boolean {
  return isNamedAfter(browserTokenName, name);
}

/** True for the name of a token that a login has created with that wanted name. */
function isNamedAfter(wanted: string, name: string): boolean {
  return name === wanted || name.replace(/-\d+$/, '') === wanted;
}

export function createLogins({ provider, ...parts }: LoginParts): Logins {
  const { access, settings, now, warn } = parts;
  /** Logs a failure, and returns it for the CLI. Throws any error that is not a JobmanError. */
  function failureOf(error: unknown): NonNullable<AwaitedCode['failure']> {
    if (!(error instanceof JobmanError)) throw error;
    const { message, code, lines, errorCode } = error;
    warn(`a login failed: ${message}`);
    return { message, code, lines, errorCode };
  }

  async function logged<T>(step: () => Promise<T>): Promise<T> {
    return step().catch((error: unknown) => {
      failureOf(error);
      throw error;
    });
  }

  async function put(kind: PendingLogin['kind'], secret: string, validForMs: Duration, body: object): Promise<void> {
    const login = { id: hashOf(secret), kind, validForMs, body: JSON.stringify(body) };
    await access.addPendingLogin(login, now(), maxPending);
  }

  async function take<Body>(kind: PendingLogin['kind'], secret: string): Promise<Body | null> {
    const body = await access.takePendingLogin(hashOf(secret), kind, now());
    return body === null ? null : (JSON.parse(body) as Body);
  }

  /** First revokes the token that the new one replaces, if a login has created it with the same wanted name. */
  async function issue(
    user: { name: UserName; role: Role },
    wanted: string,
    replaced: Actor | null,
  ): Promise<IssuedToken> {
    if (replaced?.token !== undefined && isNamedAfter(wanted, replaced.token.name))
      await revokeToken({ access, now }, replaced, replaced.token.id);
    const tokens = await access.tokens(user.name);
    const taken = new Set(
      tokens.filter((one) => one.revokedAt === null && one.expiresAt > now()).map(({ name }) => name),
    );
    let name = wanted;
    for (let number = 2; taken.has(name); number += 1) name = `${wanted}-${number}`;
    const validForMs = (settings.token_days ?? defaultTokenDays) * day;
    const { token, view } = await createToken({ access, now }, actorOf(user.name, user.role), { name, validForMs });
    return { token, view };
  }

  /** Null without a token, or for one that does not count. */
  const holderOf = async (token = '') => createAuthenticate({ access, now })(token);

  async function cliAddress(
    { port, state, challenge }: CliTarget,
    result: Omit<AwaitedCode, 'challenge'>,
  ): Promise<string> {
    const code = randomSecret();
    await put('code', code, codeTime, { challenge, ...result });
    return `http://127.0.0.1:${port}/?${new URLSearchParams({ code, state }).toString()}`;
  }

  return {
    issuer: settings.issuer,

    async start({ browser, redirectUri, session, ...target }) {
      const secrets: LoginSecrets = { state: randomSecret(), nonce: randomSecret(), verifier: randomSecret() };
      let url: string;
      try {
        url = await (await provider()).loginUrl(secrets, redirectUri);
      } catch (error) {
        const failure = failureOf(error);
        if ('page' in target) throw error;
        return cliAddress(target, { user: null, failure });
      }
      const replaced = await holderOf(session);
      const awaited: AwaitedCallback = { ...secrets, redirectUri, target, replaced };
      await put('callback', secrets.state + browser, loginTime, awaited);
      return url;
    },

    async finish(callback, browser) {
      const login = await take<AwaitedCallback>('callback', (callback.get('state') ?? '') + browser);
      if (login === null)
        throw loginRefused(
          'The server does not know this login: it has finished, took longer than 10 minutes, or began in another browser.',
          ['Begin again: run jobman login URL, or open the dashboard again.'],
        );
      const { target, redirectUri, replaced } = login;
      const find = async () => userOf(parts, await (await provider()).redeem(callback, login, redirectUri), 'browser');
      if ('page' in target) {
        const { token } = await issue(await logged(find), browserTokenName, replaced);
        return { kind: 'page', page: target.page, token };
      }
      let result: Omit<AwaitedCode, 'challenge'>;
      try {
        result = { user: await find(), failure: null };
      } catch (error) {
        result = { user: null, failure: failureOf(error) };
      }
      return { kind: 'cli', url: await cliAddress(target, result) };
    },

    async redeem(code, verifier, tokenName, replaced) {
      const login = await take<AwaitedCode>('code', code);
      if (login === null || login.challenge !== createHash('sha256').update(verifier).digest('base64url'))
        throw loginRefused('The server does not know this code: it was already used, or has expired. Log in again.');
      const { user, failure } = login;
      if (failure !== null) throw new JobmanError(failure.message, failure.code, failure.lines, failure);
      if (user === null) throw new Error('a login has neither a user nor a failure');
      return issue(user, tokenName, await holderOf(replaced));
    },

    startDevice: () => logged(async () => (await provider()).startDevice()),

    redeemDevice: (deviceCode, tokenName, replaced) =>
      logged(async () => {
        const claims = await (await provider()).redeemDevice(deviceCode);
        if (typeof claims === 'string') return claims;
        return issue(await userOf(parts, claims, 'device'), tokenName, await holderOf(replaced));
      }),
  };
}

/** The user of a person, with a row in the audit log. Throws JobmanError with the reason of a refusal. */
async function userOf(
  { access, settings, now }: Pick<LoginParts, 'access' | 'settings' | 'now'>,
  claims: Claims,
  method: 'browser' | 'device',
): Promise<{ name: UserName; role: Role }> {
  const detail = { method, issuer: claims.iss, subject: shown(claims.sub) };
  const refuse = async (error: unknown, user: UserName, role: Role, more: Readonly<Record<string, string>>) => {
    if (!(error instanceof JobmanError)) throw error;
    const object = user === noUser ? null : ({ kind: 'user', id: user } as const);
    const given = { ...detail, ...more, reason: error.message };
    const entry = auditEntry(actorOf(user, role), now(), 'log-in', object, { outcome: 'denied', detail: given });
    await access.record(entry);
    throw error;
  };
  let identity: Identity;
  try {
    identity = identityOf(settings, claims);
  } catch (error) {
    return refuse(error, noUser, 'viewer', {});
  }
  const account = shown(identity.account);
  const [at, person] = [now(), newUserOf(settings, claims, identity)];
  const entryOf = (user: UserName, role: Role, change: LogInChange) => {
    const object = { kind: 'user', id: user } as const;
    return auditEntry(actorOf(user, role), at, 'log-in', object, { detail: { ...detail, account, ...change } });
  };
  const answer = await access.logIn(identity, person, at, entryOf, groupRoleOf(settings, claims));
  if (answer.kind === 'allowed') return { name: answer.user, role: answer.role };
  const { user, role } = answer.kind === 'unknown' ? { user: noUser, role: 'viewer' as const } : answer;
  return refuse(refusalOf(answer.kind, account, user), user, role, { account });
}

/** In the audit log, for a person who is not a user. No user can have this name. */
const noUser = '-';

function actorOf(user: UserName, role: Role): Actor {
  return { user, role, via: 'session', logins: [] };
}

function refusalOf(kind: 'unknown' | 'other_person' | 'name_taken' | 'disabled', account: string, user: UserName) {
  switch (kind) {
    case 'unknown':
      return loginRefused(`No user of this server has the account ${account}.`, [
        `An admin adds you: jobman user add NAME --account ${account}`,
      ]);
    case 'other_person':
      return loginRefused(`Another person has already logged in as ${user} with the account ${account}.`, [
        `If the account was replaced, an admin links it again: jobman user account ${user} ${account}`,
      ]);
    case 'name_taken':
      return loginRefused(`The account ${account} is new here, and its name is too similar to the user ${user}.`, [
        `If that is you, an admin links the account: jobman user account ${user} ${account}`,
        `Else an admin adds you with another name: jobman user add NAME --account ${account}`,
      ]);
    case 'disabled':
      return loginRefused(`The user ${user} is disabled.`, [`An admin enables the user: jobman user enable ${user}`]);
  }
}

export function randomSecret(): string {
  return randomBytes(32).toString('base64url');
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
