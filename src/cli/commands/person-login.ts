// Logs a person in at the identity provider of a server, with a browser of this or another machine. Both functions
// resolve with a token.

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import { comparisonCode, pageHeaders, renderPage, type LoginPage } from '../../app/login-page.ts';
import { loginTime, randomSecret, type ServerLogin } from '../../app/oidc-logins.ts';
import type { LoginMachine } from '../../app/services.ts';
import { second } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import { abortOnSignal } from '../interrupt.ts';

interface PersonLogin {
  readonly cli: Cli;
  readonly login: ServerLogin;
  /** The address of the server. */
  readonly url: string;
  readonly machine: LoginMachine;
}

/** The token is named after the machine. */
function tokenNameOf({ name }: LoginMachine): string {
  const allowed = name.replaceAll(/[^\w.-]/g, '-').replace(/^[.-]+/, '');
  return allowed.slice(0, 60) || 'login';
}

/** Throws JobmanError. */
export async function logInByBrowser({ cli, login, url, machine }: PersonLogin): Promise<string> {
  const [verifier, state] = [randomSecret(), randomSecret()];
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const { signal, release } = abortOnSignal(cli);
  const result = Promise.withResolvers<string>();
  // The result may reject before the code below awaits it.
  result.promise.catch(() => undefined);
  const redeem = (code: string) => login.redeem(code, verifier, tokenNameOf(machine)).then(({ token }) => token);

  // A browser may repeat its request, and the code works once.
  let isRedeemed = false;
  const server = createServer((incoming, outgoing) => {
    const code = isRedeemed ? null : codeOf(incoming, state);
    isRedeemed ||= code !== null;
    if (code === null)
      answer(outgoing, 404, { title: 'This is not a page', lines: ['To log in, run: jobman login URL'] });
    else
      void redeem(code).then(
        (token) => {
          answer(outgoing, 200, { title: 'You are logged in', lines: ['You may close this window.'] });
          result.resolve(token);
        },
        (error: unknown) => {
          const lines = error instanceof JobmanError ? [error.message, ...error.lines] : ['See the terminal.'];
          answer(outgoing, 200, { title: 'The login failed', lines: [...lines, 'You may close this window.'] });
          result.reject(error);
        },
      );
  });
  const tooLate = setTimeout(() => {
    const sentence = 'No login was completed in a browser within 10 minutes.';
    result.reject(new JobmanError(sentence, exitCode.conflict));
  }, loginTime);
  signal.addEventListener('abort', () => result.reject(interrupted()));
  try {
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const query = new URLSearchParams({ port: String(port), state, challenge });
    const page = `${url}/login?${query.toString()}`;
    cli.printStderr(`Log in with a browser on this machine. The page must show the code ${comparisonCode(challenge)}.`);
    const isOpen = machine.hasBrowser && (await machine.openBrowser(page));
    cli.io.stderr.write(`${isOpen ? 'If no page opens:' : 'Open this page:'} ${page}\n`);
    return await result.promise;
  } finally {
    clearTimeout(tooLate);
    release();
    // The last page is written, but a browser keeps its connection open.
    server.close();
    server.closeIdleConnections();
  }
}

function codeOf({ url = '', method }: IncomingMessage, state: string): string | null {
  const { pathname, searchParams } = new URL(url, 'http://127.0.0.1');
  return method === 'GET' && pathname === '/' && searchParams.get('state') === state ? searchParams.get('code') : null;
}

function answer(outgoing: ServerResponse, status: number, page: LoginPage): void {
  outgoing.writeHead(status, { ...pageHeaders, connection: 'close' }).end(renderPage(page));
}

/** Consecutive failed polls before the login fails. */
const maxFailures = 3;

/** Logs in with a browser on any machine (RFC 8628). Throws JobmanError. */
export async function logInByDevice({ cli, login, machine }: PersonLogin): Promise<string> {
  const started = await login.startDevice();
  const { deviceCode, userCode, verificationUri, verificationUriComplete, expiresInSeconds } = started;
  // Does not wrap lines, so that a person can copy the address.
  const print = (line: string): void => cli.io.stderr.write(`${escapeLine(line)}\n`);
  print(`Open ${verificationUri} in a browser on any machine, and enter the code ${userCode}.`);
  if (verificationUriComplete !== null) print(`With the code in it: ${verificationUriComplete}`);
  const { signal, release } = abortOnSignal(cli);
  const end = cli.io.now() + expiresInSeconds * second;
  let pause = started.intervalSeconds * second;
  let failures = 0;
  const aborted = once(signal, 'abort').then(() => Promise.reject(interrupted()));
  aborted.catch(() => undefined);
  try {
    while (cli.io.now() < end) {
      await sleep(pause, undefined, { signal });
      try {
        const result = await Promise.race([login.redeemDevice(deviceCode, tokenNameOf(machine)), aborted]);
        if (typeof result !== 'string') return result.token;
        if (result === 'slow_down') pause += 5 * second;
        failures = 0;
      } catch (error) {
        // A short outage must not end the login, because the person may just be logging in.
        const isUnreachable = error instanceof JobmanError && error.code === exitCode.unreachable;
        failures += 1;
        if (!isUnreachable || failures > maxFailures) throw error;
      }
    }
    throw new JobmanError('The code has expired. Log in again.', exitCode.conflict);
  } catch (error) {
    throw signal.aborted ? interrupted() : error;
  } finally {
    release();
  }
}

function interrupted(): JobmanError {
  return new JobmanError('Interrupted.', exitCode.interrupted);
}
