// The admin client of the terminal. It uses node:http, because loading fetch would slow down short commands.

import { request } from 'node:http';
import { type AdminReply, EmulatorError } from './contract.ts';

/** In milliseconds. A verb only changes the state, and awaits nothing in the cloud, but the machine may be busy. */
const answerTimeout = 30_000;

/** Runs one admin verb on the emulator at `url`. Option values are text or JSON. Throws EmulatorError. */
export async function runAdminVerb(
  url: string,
  verb: string,
  target: string | undefined,
  options: Readonly<Record<string, unknown>> = {},
): Promise<AdminReply> {
  return sendAdminRequest(url, 'POST', encodeURIComponent(verb), {
    body: { ...options, ...(target === undefined ? {} : { target }) },
  });
}

/** Reads `info` (ports, speed, version) or `state` (all resources) of a running emulator. */
export async function queryEmulator(
  url: string,
  what: 'info' | 'state',
  timeout = answerTimeout,
): Promise<Readonly<Record<string, unknown>>> {
  return sendAdminRequest(url, 'GET', what, { timeout });
}

function sendAdminRequest(
  url: string,
  method: 'GET' | 'POST',
  path: string,
  { body, timeout = answerTimeout }: { readonly body?: object; readonly timeout?: number },
): Promise<AdminReply> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? '' : JSON.stringify(body);
    const outgoing = request(
      `${url.replace(/\/$/, '')}/emulator/${path}`,
      {
        method,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
        // A pooled connection may belong to an earlier emulator on the same port, and would break on use.
        agent: false,
      },
      (reply) => {
        const parts: Buffer[] = [];
        reply.on('data', (part: Buffer) => parts.push(part));
        reply.on('error', reject);
        reply.on('end', () => {
          const status = reply.statusCode ?? 0;
          let answer: { message?: unknown };
          try {
            answer = JSON.parse(Buffer.concat(parts).toString('utf8')) as { message?: unknown };
          } catch {
            reject(new EmulatorError(status, `${url} does not answer like the emulator (status ${status}).`));
            return;
          }
          if (status < 400) resolve(answer as AdminReply);
          else
            reject(
              new EmulatorError(
                status,
                typeof answer.message === 'string' ? answer.message : `the emulator refused with status ${status}`,
              ),
            );
        });
      },
    );
    outgoing.setTimeout(timeout, () => {
      reject(new EmulatorError(504, `The emulator at ${url} did not answer within ${timeout / 1000} s.`));
      outgoing.destroy();
    });
    outgoing.on('error', (error) => {
      reject(new EmulatorError(0, `The emulator at ${url} does not answer: ${error.message}.`, { cause: error }));
    });
    outgoing.end(text);
  });
}
