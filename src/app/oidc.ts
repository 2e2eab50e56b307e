// OpenID Connect: the setting `server.oidc`, the port of the identity provider, and the account of a person there.

import { roles, type Role } from '../core/model/user.ts';
import {
  enumOf,
  int,
  listOf,
  objectMap,
  objectOf,
  refined,
  textWhere,
  isNonEmpty,
  type ValueOf,
} from '../schema/kinds.ts';
import { exitCode, JobmanError } from './errors.ts';
import { normalizeAccount } from './user-names.ts';

const text = textWhere('text', isNonEmpty);

/** HTTPS, or HTTP on this machine, because the address receives codes and tokens. */
function isSecureUrl(given: string): boolean {
  const url = URL.parse(given);
  if (url === null || url.search !== '' || url.hash !== '' || url.username !== '') return false;
  return (
    url.protocol === 'https:' ||
    (url.protocol === 'http:' && /^(?:localhost|\[::1\]|127(?:\.\d+){3})$/.test(url.hostname))
  );
}

const emailClaim = 'email';
const groupsClaim = 'groups';

const secretFile = textWhere('the path of a file', isNonEmpty);

/** The names of the standard, because administrators copy them from the documentation of their provider. */
export const oidcKind = refined(
  objectOf(
    '{ "issuer": "https://login.example", "client_id": "jobman" }',
    {
      issuer: textWhere('an address like "https://login.example"', isSecureUrl),
      client_id: text,
    },
    {
      client_secret_file: secretFile,
      scopes: listOf('a list of scopes like ["openid", "email"]', textWhere('a scope', /^[!#-[\]-~]+$/)),
      user_claim: textWhere('the name of a claim like "preferred_username"', isNonEmpty),
      new_users: enumOf('"none", "viewer" or "member"', ['none', 'viewer', 'member']),
      allowed_domains: listOf(
        'a list of domains like ["example.com"]',
        textWhere('a domain like "example.com", in lower case', /^[a-z\d-]+(?:\.[a-z\d-]+)+$/),
      ),
      roles: objectMap(
        'an object of groups like { "jobman-admins": "admin", "lab": "member" }',
        (name) => (name.trim() === '' ? 'is empty' : null),
        enumOf('"viewer", "member" or "admin"', roles),
      ),
      groups_claim: textWhere('the name of a claim like "groups"', isNonEmpty),
      device: objectOf('{ "client_id": "jobman-device" }', { client_id: text }, { client_secret_file: secretFile }),
      token_days: int(1, 366),
      url: textWhere('an address like "https://jobman.example"', isSecureUrl),
    },
  ),
  (value, fail) => {
    const { scopes, new_users: newUsers = 'none', allowed_domains: domains = [] } = value;
    if (scopes !== undefined && !scopes.includes('openid')) return fail('requires "openid" in "scopes"');
    if (value.roles === undefined && value.groups_claim !== undefined)
      return fail('requires "roles" with "groups_claim"');
    return newUsers !== 'none' && domains.length === 0 ? fail('requires "allowed_domains" with "new_users"') : value;
  },
);

export type OidcSettings = ValueOf<typeof oidcKind>;

/** The claims of the ID token, and those of the user info endpoint if the ID token lacks some. */
export interface Claims {
  readonly iss: string;
  readonly sub: string;
  readonly [claim: string]: unknown;
}

/** The random values of one login in a browser. */
export interface LoginSecrets {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** A device login (RFC 8628). */
export interface DeviceLogin {
  readonly deviceCode: string;
  /** The person enters it at `verificationUri`. */
  readonly userCode: string;
  readonly verificationUri: string;
  /** `verificationUri` with the code in it; null if the provider has none. */
  readonly verificationUriComplete: string | null;
  readonly expiresInSeconds: number;
  /** Time between two polls of the CLI. */
  readonly intervalSeconds: number;
}

export type DevicePending = 'pending' | 'slow_down';

/** Each method throws JobmanError: 5 if the provider does not answer, 4 if it refuses or its response is invalid. */
export interface IdentityProvider {
  /** The address at which the person logs in. */
  loginUrl(secrets: LoginSecrets, redirectUri: string): Promise<string>;
  /** `callback`: the parameters of the callback address. */
  redeem(callback: URLSearchParams, secrets: LoginSecrets, redirectUri: string): Promise<Claims>;
  startDevice(): Promise<DeviceLogin>;
  redeemDevice(deviceCode: string): Promise<Claims | DevicePending>;
}

/** The identity of a person. */
export interface Identity {
  readonly issuer: string;
  /** Never given to another person by the same issuer. */
  readonly subject: string;
  /** The name by which an admin links a user. A provider may give it to another person later. */
  readonly account: string;
}

/** Claims that must be present. */
export function neededClaims(settings: OidcSettings): readonly string[] {
  const { user_claim: claim = emailClaim, new_users: newUsers = 'none' } = settings;
  const groups = settings.roles === undefined ? [] : [settings.groups_claim ?? groupsClaim];
  return [claim, ...(newUsers === 'none' ? [] : [emailClaim]), ...groups];
}

/** The roles of a person who logs in. */
export interface GroupRole {
  /** The highest role of the person's groups; null without one. */
  readonly role: Role | null;
  /** The role of a user who is no longer in any of the groups, if the groups gave the old role. */
  readonly otherwise: Role;
}

/** Null if the settings give no roles to groups. A provider may send a single group as a string. */
export function groupRoleOf(settings: OidcSettings, claims: Claims): GroupRole | null {
  const { roles: roleOf, groups_claim: claim = groupsClaim, new_users: newUsers = 'none' } = settings;
  if (roleOf === undefined) return null;
  const groups: ReadonlySet<unknown> = new Set([claims[claim]].flat());
  const given = new Set(Object.entries(roleOf).flatMap(([group, role]) => (groups.has(group) ? [role] : [])));
  return {
    role: roles.findLast((role) => given.has(role)) ?? null,
    otherwise: newUsers === 'none' ? 'viewer' : newUsers,
  };
}

/** Throws JobmanError (4) with the reason why the claims identify no person. */
export function identityOf(settings: OidcSettings, claims: Claims): Identity {
  const { user_claim: claim = emailClaim } = settings;
  const account = claim === emailClaim ? verifiedEmail(claims) : claims[claim];
  if (typeof account !== 'string' || account.trim() === '')
    throw loginRefused(`The identity provider sent no claim ${claim}, by which jobman identifies users.`, [
      'An admin checks user_claim and scopes in the setting server.oidc',
    ]);
  return { issuer: claims.iss, subject: claims.sub, account: normalizeAccount(account) };
}

function verifiedEmail(claims: Claims): unknown {
  const { email, email_verified: verified } = claims;
  if (typeof email !== 'string' || email === '') return undefined;
  // Amazon Cognito sends a string.
  if (verified === true || verified === 'true') return normalizeAccount(email);
  throw loginRefused(`The identity provider has not verified the e-mail address ${shown(email)}.`, [
    'Verify it there, or ask an admin for a token',
  ]);
}

/** The user to add for a person whom no admin has linked; null if the settings allow none. */
export function newUserOf(settings: OidcSettings, claims: Claims, { account }: Identity) {
  const { new_users: role = 'none', allowed_domains: domains = [], user_claim: claim = emailClaim } = settings;
  const ofGroups = groupRoleOf(settings, claims)?.role ?? null;
  if (ofGroups !== null)
    return { role: ofGroups, name: claim === emailClaim ? account.replace(/@[^@]*$/, '') : account };
  if (role === 'none') return null;
  const email = verifiedEmail(claims);
  const [, local, domain] = /^(.+)@([^@]+)$/.exec(typeof email === 'string' ? email : '') ?? [];
  if (local === undefined || domain === undefined || !domains.includes(domain)) return null;
  return { role, name: claim === emailClaim ? local : account };
}

export function loginRefused(message: string, lines: readonly string[] = []): JobmanError {
  return new JobmanError(message, exitCode.conflict, lines, { errorCode: 'forbidden' });
}

const maxShown = 200;

/** Text from the provider, made safe for a message. */
export function shown(given: unknown): string {
  return String(given)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, maxShown);
}
