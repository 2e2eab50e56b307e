// The client of the admin door, for the terminal. It is made on node:http because loading fetch costs a short command
// more than everything else it does.

import { request } from 'node:http';
import { type AdminReply, EmulatorRefusal } from './contract.ts';

/**
 * Does one admin verb (`preempt`, `stockout`, …) on a running emulator. `url` is what `endpoint.json` or READY said.
 * Options are plain words, durations like `30s` or `10m`, and numbers, all as text or JSON values.
 * Throws EmulatorRefusal: its message is ready to be shown.
 */
export async function admin(
  url: string,
  verb: string,
  target: string | undefined,
  options: Readonly<Record<string, unknown>> = {},
): Promise<AdminReply> {
  return askAdmin(url, 'POST', encodeURIComponent(verb), { ...options, ...(target === undefined ? {} : { target }) });
}

/** A running emulator about itself: `info` (ports, speed, version) or `state` (all that exists). */
export async function adminLook(url: string, what: 'info' | 'state'): Promise<Readonly<Record<string, unknown>>> {
  return askAdmin(url, 'GET', what);
}

function askAdmin(url: string, method: 'GET' | 'POST', path: string, body?: object): Promise<AdminReply> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? '' : JSON.stringify(body);
    const asked = request(
      `${url.replace(/\/$/, '')}/emulator/${path}`,
      {
        method,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
        // A connection that was kept belongs to the emulator that had this port before, and would be cut when it is used.
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
            reject(new EmulatorRefusal(status, `${url} does not answer like the emulator (status ${status}).`));
            return;
          }
          if (status < 400) resolve(answer as AdminReply);
          else
            reject(
              new EmulatorRefusal(
                status,
                typeof answer.message === 'string' ? answer.message : `the emulator refused with status ${status}`,
              ),
            );
        });
      },
    );
    asked.on('error', (error) => {
      reject(new EmulatorRefusal(0, `The emulator at ${url} does not answer: ${error.message}.`, { cause: error }));
    });
    asked.end(text);
  });
}
