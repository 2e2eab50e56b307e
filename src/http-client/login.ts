// The HTTP client of `jobman login` with an account, which has no token yet.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { ServerLogin } from '../app/oidc-logins.ts';
import { second } from '../core/model/time.ts';
import { createHttpClient } from '../http/client.ts';
import { NoReply } from '../http/reply.ts';
import { failureOf, foreignAnswer, type HttpClientParts } from './client.ts';

interface LoginParts extends Pick<HttpClientParts, 'server' | 'ca' | 'env'> {
  /** Of an earlier login, which the server revokes with the next one; null without one. */
  readonly replaced: string | null;
}

/** Retries only after status 429, because each step of a login works once. */
const retry = { maxTries: 4, maxTriesIfBroken: 1, initialDelay: second, maxDelay: 10 * second } as const;

/** Connects with the first call. */
export function createServerLogin({ server, ca, env, replaced }: LoginParts): ServerLogin {
  const http = createHttpClient({ env, retry, trust: { extraCa: ca ?? undefined } });

  async function call<T>(method: 'GET' | 'POST', path: string, fields?: object): Promise<T> {
    const body = fields === undefined ? undefined : JSON.stringify(fields);
    const reply = await http.request({
      url: server,
      path,
      method,
      body,
      headers: {
        'content-type': 'application/json',
        ...(replaced !== null && { authorization: `Bearer ${replaced}` }),
      },
    });
    if (reply instanceof NoReply || reply.status >= 300) throw failureOf(reply, server, { ca });
    try {
      return JSON.parse(reply.bytes.toString()) as T;
    } catch {
      throw foreignAnswer(reply, server);
    }
  }

  return {
    async methods() {
      try {
        return await call('GET', '/login/methods');
      } catch (error) {
        // A server of an earlier version.
        if (error instanceof JobmanError && error.code === exitCode.notFound) return { oidc: null };
        throw error;
      }
    },
    redeem: (code, verifier, name) => call('POST', '/login/token', { code, verifier, name }),
    startDevice: () => call('POST', '/login/device', {}),
    async redeemDevice(deviceCode, name) {
      const answer = await call<{ readonly waiting?: 'pending' | 'slow_down' }>('POST', '/login/device/token', {
        deviceCode,
        name,
      });
      return answer.waiting ?? (answer as Awaited<ReturnType<ServerLogin['redeem']>>);
    },
    close: () => http.close(),
  };
}
