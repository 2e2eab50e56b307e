// Tokens: credentials for the HTTP API. A token is shown once; the database has only its SHA-256. A token is random, so
// no slow hash is needed (docs/decisions/tokens.md).

import { createHash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { ownHost } from '../core/model/spec.ts';
import { day, minute, type Duration, type Instant } from '../core/model/time.ts';
import { lowerRole, type Actor, type Role, type UserName } from '../core/model/user.ts';
import { permittedOwners } from '../core/policy/permissions.ts';
import { auditEntry } from './audit.ts';
import { exitCode, JobmanError, StoreError, usageError } from './errors.ts';
import { formatChoices, formatDuration } from './format.ts';
import type { Key, Rows, Span } from './pages.ts';
import type { AccessStore } from './ports.ts';
import { forbiddenError, requireGeneral } from './require-permission.ts';
import { nameRefusal, normalizeName } from './user-names.ts';
import { requireRole } from './users.ts';

/** A token without its value. */
export interface TokenView {
  /** Begins with `tok_`. */
  readonly id: string;
  /** Unique among the user's valid tokens. */
  readonly name: string;
  readonly user: UserName;
  /** A call has the lower of this role and the user's role. */
  readonly role: Role;
  readonly createdAt: Instant;
  /** The user who created it. */
  readonly createdBy: UserName;
  /** The token is not valid from then on. */
  readonly expiresAt: Instant;
  /** At most a minute old while the token is in use; null before the first use. */
  readonly lastUsedAt: Instant | null;
  /** The token is not valid from then on; null for a token that is not revoked. */
  readonly revokedAt: Instant | null;
}

export interface TokenRequest {
  /** Default: its id. */
  readonly name?: string;
  /** Default: the highest allowed role. */
  readonly role?: Role;
  /** Default: 90 days. */
  readonly validForMs?: Duration;
  /** Default: the actor's user. */
  readonly user?: UserName;
}

export interface CreatedToken {
  /** The value, which the server does not store. */
  readonly token: string;
  readonly view: TokenView;
  /** True if this call has registered the user as the first admin. */
  readonly registered: boolean;
}

export interface RevokedToken {
  readonly view: TokenView;
  /** False if it was already revoked. */
  readonly changed: boolean;
}

interface TokenParts {
  readonly access: AccessStore;
  readonly now: () => Instant;
}

export const defaultValidity: Duration = 90 * day;
const minValidity: Duration = minute;
const maxValidity: Duration = 366 * day;

const tokenNamePattern = /^[A-Za-z0-9_][\w.-]{0,63}$/;

export async function createToken(parts: TokenParts, actor: Actor, request: TokenRequest): Promise<CreatedToken> {
  const { access, now } = parts;
  const { validForMs = defaultValidity } = request;
  const user = request.user === undefined ? actor.user : normalizeName(request.user);
  if (user !== actor.user) requireGeneral(actor, 'tokens', 'create tokens of other users');
  if (request.role !== undefined) requireRole(request.role);
  if (!Number.isSafeInteger(validForMs) || validForMs < minValidity || validForMs > maxValidity)
    throw usageError(
      `A token is valid for ${formatDuration(minValidity)} to ${formatDuration(maxValidity)}, and not for ${validForMs === 0 ? 'no time' : formatValidity(validForMs)}.`,
    );
  const id = `tok_${randomText(10)}`;
  const { name = id } = request;
  if (!tokenNamePattern.test(name))
    throw usageError(
      nameRefusal(
        'token name',
        name,
        'use letters, digits, _, . and -, at most 64, beginning with a letter, a digit or _',
      ),
    );
  const [value, at] = [newToken(), now()];
  const view: Omit<TokenView, 'role'> = {
    id,
    name,
    user,
    createdAt: at,
    createdBy: actor.user,
    expiresAt: at + validForMs,
    lastUsedAt: null,
    revokedAt: null,
  };
  /** Called in the transaction. */
  function roleFor(registered: Role | null, isFirstUser: boolean): Role {
    // The owner of a new home registers with the first token. Later the login may be one that several users share.
    const isFirstAdmin = isFirstUser && user === actor.user && actor.role === 'admin' && actor.via === 'local';
    const own = registered ?? (isFirstAdmin ? 'admin' : null);
    if (own === null) {
      // The owner of the home, whose first token came after another user was registered.
      const role = user === actor.user && actor.role === 'admin' ? ' --role admin' : '';
      throw new JobmanError(
        `There is no user ${JSON.stringify(user)}. An admin adds users: jobman user add ${user}${role}`,
        exitCode.notFound,
      );
    }
    const highest = user === actor.user ? lowerRole(own, actor.role) : own;
    const role = request.role ?? highest;
    if (lowerRole(role, highest) === role) return role;
    const reason = user === actor.user && highest !== own ? `your role is ${highest}` : `the role of ${user} is ${own}`;
    throw forbiddenError(`${reason}, so the token cannot have the role ${role}`);
  }
  const audit = auditEntry(actor, at, 'create-token', { kind: 'token', id }, { detail: { name, user } });
  const { role, registered } = await access.addToken({ ...view, hash: hashOf(value) }, roleFor, audit);
  return { token: value, view: { ...view, role }, registered };
}

function formatValidity(length: Duration): string {
  return Number.isFinite(length) && length > 0 ? formatDuration(length) : String(length);
}

export async function listTokens({ access }: TokenParts, actor: Actor, span?: Span): Promise<Rows<TokenView, Key>> {
  return access.tokens(permittedOwners(actor, 'tokens') === null ? null : actor.user, span);
}

/** `ref`: an id or a name. A name selects the user's valid token, else the newest one with this name. */
export async function revokeToken(
  { access, now }: TokenParts,
  actor: Actor,
  ref: string,
  user?: UserName,
): Promise<RevokedToken> {
  const owner = user === undefined ? undefined : normalizeName(user);
  if (owner !== undefined && owner !== actor.user) requireGeneral(actor, 'tokens', 'revoke tokens of other users');
  const all = await listTokens({ access, now }, actor);
  const isWanted = (one: TokenView): boolean =>
    one.id === ref ? owner === undefined || one.user === owner : one.name === ref && one.user === (owner ?? actor.user);
  const found = all.filter(isWanted).toSorted((one, other) => one.createdAt - other.createdAt);
  const view = found.find(({ revokedAt }) => revokedAt === null) ?? found.at(-1);
  if (view === undefined) {
    const names = all
      .filter((one) => one.user === (owner ?? actor.user) && one.revokedAt === null)
      .map(({ name }) => name);
    const ofOwner = owner === undefined || owner === actor.user ? '' : ` of ${owner}`;
    throw new JobmanError(
      `There is no token ${JSON.stringify(ref)}${ofOwner}. ${formatChoices(names)}`,
      exitCode.notFound,
    );
  }
  // A stolen token must not revoke tokens with a higher role. The user's current role limits the role of each token.
  if (actor.via === 'token') {
    const registered = (await access.users()).find((one) => one.name === view.user);
    const role = lowerRole(view.role, registered?.role ?? view.role);
    if (lowerRole(role, actor.role) !== role)
      throw forbiddenError(`your role is ${actor.role}, which may not revoke a token with the role ${role}`);
  }
  const at = now();
  const detail = { name: view.name, user: view.user };
  const audit = auditEntry(actor, at, 'revoke-token', { kind: 'token', id: view.id }, { detail });
  const changed = await access.revokeToken(view.id, at, audit);
  return { view: changed ? { ...view, revokedAt: at } : view, changed };
}

/** The actor of a call with that token; null for an invalid token: unknown, expired, revoked, or of a disabled user. */
export type Authenticate = (token: string) => Promise<Actor | null>;

/** Reads the database each time, so that a change takes effect with the next call. Throws StoreError. */
export function createAuthenticate({ access, now }: TokenParts): Authenticate {
  return async (token) => {
    if (!isToken(token)) return null;
    const found = await access.findToken(hashOf(token));
    if (found === null) return null;
    const { id, name, user, expiresAt, revokedAt, lastUsedAt, userLimits } = found;
    const { projects, clusters, hosts, filesMib } = userLimits;
    const actor: Actor = {
      user,
      role: lowerRole(found.role, found.userRole),
      via: 'token',
      logins: [],
      ...(projects !== null && { projects }),
      ...(clusters !== null && { clusters }),
      ...(filesMib !== null && { filesMib }),
      ...(hosts?.includes(ownHost) === true && { mayUseServerMachine: true }),
      token: { id, name },
    };
    const at = now();
    const reason =
      revokedAt !== null ? 'revoked' : at >= expiresAt ? 'expired' : found.isUserDisabled ? 'user disabled' : null;
    if (reason !== null) {
      const entry = auditEntry(
        actor,
        at,
        'authenticate',
        { kind: 'token', id },
        { outcome: 'denied', detail: { reason } },
      );
      await access.recordRefusedToken(id, at - minute, entry).catch(ignoreStoreError);
      return null;
    }
    if (lastUsedAt === null || Math.abs(at - lastUsedAt) >= minute)
      await access.recordUse(id, at).catch(ignoreStoreError);
    return actor;
  };
}

/** While the database cannot be written, tokens still authenticate reads. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error;
}

// ------------------------------------------------------------------------------------------ the form of a token

/** Secret scanners search for it. */
const prefix = 'jobman_';
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 190 bits. */
const randomLength = 32;
const checksumLength = 6;
const tokenPattern = new RegExp(`^${prefix}([0-9A-Za-z]{${randomLength}})([0-9A-Za-z]{${checksumLength}})$`);

function randomText(length: number): string {
  return Array.from({ length }, () => digits[randomInt(digits.length)]).join('');
}

function newToken(): string {
  const random = randomText(randomLength);
  return `${prefix}${random}${checksumOf(random)}`;
}

/** True if the text has the form of a token and its checksum. Says nothing about the database. */
export function isToken(text: string): boolean {
  const [, random, checksum] = tokenPattern.exec(text) ?? [];
  return random !== undefined && checksumOf(random) === checksum;
}

/** CRC-32 in base 62, so that a scanner can tell a token from a similar text without asking a server. */
function checksumOf(text: string): string {
  let [rest, encoded] = [crc32(text), ''];
  for (let digit = 0; digit < checksumLength; digit += 1) {
    encoded = `${digits[rest % digits.length]}${encoded}`;
    rest = Math.floor(rest / digits.length);
  }
  return encoded;
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
