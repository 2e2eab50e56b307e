// The identity provider, over openid-client. It is discovered at the first login, and again after an hour.

import * as oidc from 'openid-client';
import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import {
  loginRefused,
  neededClaims,
  shown,
  type Claims,
  type DeviceLogin,
  type DevicePending,
  type IdentityProvider,
  type LoginSecrets,
  type OidcSettings,
} from '../app/oidc.ts';
import { hour, minute, second, type Instant } from '../core/model/time.ts';
import { createHttpClient, type Environment } from '../http/client.ts';
import { NoReply } from '../http/reply.ts';

/** The secret of the client; null without one. `device`: of the client for logins with a code. */
export interface ClientSecrets {
  readonly browser: string | null;
  readonly device: string | null;
}

interface ProviderParts {
  readonly settings: OidcSettings;
  readonly clientSecrets: ClientSecrets;
  /** May name proxies. */
  readonly env: Environment;
  readonly now: () => Instant;
}

type Flow = 'browser' | 'device';

const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';
const discoveryAge = hour;
const limits = { answer: 10 * second, total: 15 * second, bytes: 1024 * 1024 } as const;
/** Accepted difference between the clocks of this machine and the provider. */
const clockTolerance = minute / second;
const defaultScopes = ['openid', 'email', 'profile'];
/** RFC 8628, section 3.2. */
const defaultInterval = 5;

/** Discovers the provider when it is needed. Rejects with the error of the library. */
function createConfigurations({ settings, clientSecrets, env, now }: ProviderParts) {
  const { issuer } = settings;
  const clientIds = { browser: settings.client_id, device: settings.device?.client_id ?? settings.client_id };
  const http = createHttpClient({ env, limits });
  const discovered = new Map<Flow, { readonly at: Instant; readonly config: Promise<oidc.Configuration> }>();

  const fetch: oidc.CustomFetch = async (url, { method, headers, body, signal }) => {
    const sent = body instanceof URLSearchParams ? body.toString() : typeof body === 'string' ? body : undefined;
    const reply = await http.request({ url, method, headers, body: sent, signal });
    if (reply instanceof NoReply) throw reply;
    const { status, bytes } = reply;
    const received = Object.entries(reply.headers).map(([name, value]): [string, string] => [name, String(value)]);
    return new Response(bytes.length === 0 ? null : new Uint8Array(bytes), { status, headers: received });
  };

  /** Prefers `client_secret_basic`, the default of the standard, to `client_secret_post`. */
  const authentication =
    (clientSecret: string | null): oidc.ClientAuth =>
    (server, ...request) => {
      if (clientSecret === null) return oidc.None()(server, ...request);
      const { token_endpoint_auth_methods_supported: methods = ['client_secret_basic'] } = server;
      const isBasic = methods.includes('client_secret_basic');
      return (isBasic ? oidc.ClientSecretBasic(clientSecret) : oidc.ClientSecretPost(clientSecret))(server, ...request);
    };

  return (flow: Flow): Promise<oidc.Configuration> => {
    const known = discovered.get(flow);
    if (known !== undefined && Math.abs(now() - known.at) < discoveryAge) return known.config;
    const metadata = {
      [oidc.clockTolerance]: clockTolerance,
      // The clock of the rest of the program.
      [oidc.clockSkew]: Math.round((now() - Date.now()) / second),
    };
    const execute = [oidc.enableNonRepudiationChecks];
    if (issuer.startsWith('http:')) execute.push(oidc.allowInsecureRequests);
    const auth = authentication(clientSecrets[flow]);
    const config = oidc.discovery(new URL(issuer), clientIds[flow], metadata, auth, {
      [oidc.customFetch]: fetch,
      execute,
    });
    discovered.set(flow, { at: now(), config });
    config.catch(() => {
      if (discovered.get(flow)?.config === config) discovered.delete(flow);
    });
    return config;
  };
}

/** Connects with the first login. */
export function createIdentityProvider(parts: ProviderParts): IdentityProvider {
  const { settings } = parts;
  const { issuer, scopes = defaultScopes } = settings;
  const configuration = createConfigurations(parts);

  /** Throws JobmanError. */
  async function withProvider<T>(flow: Flow, call: (config: oidc.Configuration) => Promise<T>): Promise<T> {
    try {
      return await call(await configuration(flow));
    } catch (error) {
      throw error instanceof JobmanError ? error : providerError(error, issuer);
    }
  }

  async function claimsOf(
    config: oidc.Configuration,
    tokens: oidc.TokenEndpointResponse & oidc.TokenEndpointResponseHelpers,
  ) {
    const claims = tokens.claims();
    if (claims === undefined) throw loginRefused(`${issuer} has sent no ID token.`, [settingsRemedy]);
    const isComplete = neededClaims(settings).every((name) => claims[name] !== undefined);
    if (isComplete || config.serverMetadata().userinfo_endpoint === undefined) return claims;
    const more = await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
    return { ...more, ...claims };
  }

  return {
    loginUrl: ({ state, nonce, verifier }: LoginSecrets, redirectUri: string) =>
      withProvider('browser', async (config) => {
        const url = oidc.buildAuthorizationUrl(config, {
          redirect_uri: redirectUri,
          scope: scopes.join(' '),
          state,
          nonce,
          code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
          code_challenge_method: 'S256',
        });
        return url.href;
      }),

    redeem: (callback: URLSearchParams, { state, nonce, verifier }: LoginSecrets, redirectUri: string) =>
      withProvider('browser', async (config): Promise<Claims> => {
        const url = new URL(redirectUri);
        url.search = callback.toString();
        const tokens = await oidc.authorizationCodeGrant(config, url, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        });
        return claimsOf(config, tokens);
      }),

    startDevice: () =>
      withProvider('device', async (config): Promise<DeviceLogin> => {
        if (config.serverMetadata().device_authorization_endpoint === undefined)
          throw loginRefused(`${issuer} offers no login with a code.`, ['With a browser: jobman login URL --browser']);
        const answer = await oidc.initiateDeviceAuthorization(config, { scope: scopes.join(' ') });
        return {
          deviceCode: answer.device_code,
          userCode: answer.user_code,
          verificationUri: answer.verification_uri,
          verificationUriComplete: answer.verification_uri_complete ?? null,
          expiresInSeconds: answer.expires_in,
          intervalSeconds: answer.interval ?? defaultInterval,
        };
      }),

    redeemDevice: (deviceCode: string) =>
      withProvider('device', async (config): Promise<Claims | DevicePending> => {
        try {
          return await claimsOf(
            config,
            await oidc.genericGrantRequest(config, deviceGrant, { device_code: deviceCode }),
          );
        } catch (error) {
          if (error instanceof oidc.ResponseBodyError) {
            if (error.error === 'authorization_pending') return 'pending';
            if (error.error === 'slow_down') return 'slow_down';
          }
          throw error;
        }
      }),
  };
}

const settingsRemedy = 'An admin checks the setting server.oidc';

/** The names of errors are those of RFC 6749 and RFC 8628. */
function providerError(error: unknown, issuer: string): JobmanError {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof NoReply)
    return new JobmanError(`The identity provider ${issuer} does not answer: ${cause.message}.`, exitCode.unreachable);
  if (error instanceof oidc.AuthorizationResponseError || error instanceof oidc.ResponseBodyError) {
    const name = shown(error.error);
    const description = error.error_description === undefined ? '' : `: ${shown(error.error_description)}`;
    switch (name) {
      case 'access_denied':
        return loginRefused(`The login was refused at ${issuer} (${name}${description}).`);
      case 'expired_token':
        return loginRefused('The code has expired. Log in again.');
      case 'invalid_client':
      case 'unauthorized_client':
        return clientRefused(issuer, `${name}${description}`);
      default:
        return loginRefused(`${issuer} returned the error ${name}${description}.`);
    }
  }
  if (error instanceof oidc.WWWAuthenticateChallengeError) return clientRefused(issuer, `status ${error.status}`);
  const { code } = error as { readonly code?: unknown };
  const details = findDetails(error);
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED')
    return loginRefused(
      `The ID token of ${issuer} is not valid at this time (${details.claim ?? 'exp'}): the clock of the server or of the provider is wrong.`,
      ['An admin compares the clocks: timedatectl'],
    );
  if (code === 'OAUTH_JWT_CLAIM_COMPARISON_FAILED') {
    const name = { aud: 'audience', azp: 'audience', iss: 'issuer' }[details.claim ?? ''] ?? details.claim;
    return loginRefused(`The ID token of ${issuer} has another ${name} than this login.`, [settingsRemedy]);
  }
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED' && details.attribute === 'issuer')
    return loginRefused(
      `The provider at ${issuer} names another issuer: ${shown(details.body?.['issuer'] ?? 'none')}.`,
      ['If that is the right provider, an admin sets issuer in server.oidc to exactly this name'],
    );
  const reason = cause instanceof Error ? cause.message : messageOf(error);
  return new JobmanError(
    `The response of the identity provider ${issuer} is not valid: ${shown(reason)}.`,
    exitCode.unreachable,
  );
}

function clientRefused(issuer: string, reason: string): JobmanError {
  return loginRefused(`${issuer} does not accept this server as its client (${reason}).`, [
    'An admin checks client_id and client_secret_file in the setting server.oidc',
  ]);
}

interface Details {
  readonly claim?: string;
  readonly attribute?: string;
  readonly body?: Readonly<Record<string, unknown>>;
}

/** The innermost cause of the library's error has the compared values. */
function findDetails(error: unknown): Details {
  let inner: unknown = error;
  while (inner instanceof Error && inner.cause !== undefined) inner = inner.cause;
  return inner instanceof Error || typeof inner !== 'object' ? {} : ((inner ?? {}) as Details);
}
