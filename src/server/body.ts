// Bodies of requests, with a limit of their size.

import type { IncomingMessage } from 'node:http';
import { JobmanError, exitCode, usageError } from '../app/errors.ts';
import { blobsPerBody } from '../api/wire.ts';

const mebibyte = 1024 * 1024;

/** A JSON body may contain the list of files of a working directory, and secrets. A body with blobs may contain one batch. */
export const bodyLimits = { json: 16 * mebibyte, bytes: 2 * mebibyte, blobs: 8 * blobsPerBody } as const;
/** For a request with a few short strings. */
const maxTexts = 16 * 1024;

/** The body of a request exceeds its limit. */
export class BodyTooLarge extends JobmanError {
  constructor(limit: number) {
    super(`The body is larger than ${limit / mebibyte} MiB.`, exitCode.usage);
    this.name = 'BodyTooLarge';
  }
}

/** Reads the body. `onPart` gets the length of each part, and may throw. Throws BodyTooLarge without reading the rest. */
export function readBody(incoming: IncomingMessage, limit: number, onPart: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = Number(incoming.headers['content-length'] ?? 0);
    if (size > limit) {
      reject(new BodyTooLarge(limit));
      return;
    }
    size = 0;
    const onData = (part: Buffer): void => {
      size += part.length;
      try {
        if (size > limit) throw new BodyTooLarge(limit);
        onPart(part.length);
        parts.push(part);
      } catch (error) {
        incoming.off('data', onData).pause();
        reject(error);
      }
    };
    incoming.on('data', onData);
    incoming.on('end', () => resolve(Buffer.concat(parts)));
    const onBroken = (): void => reject(new JobmanError('The request was incomplete.', exitCode.usage));
    incoming.on('error', onBroken);
    incoming.on('close', onBroken);
  });
}

/** Reads these string fields of a JSON object. Throws JobmanError (2). */
export async function readTexts<const Names extends readonly string[]>(
  incoming: IncomingMessage,
  names: Names,
): Promise<{ readonly [At in keyof Names]: string }> {
  const body = (await readBody(incoming, maxTexts, () => undefined)).toString();
  let fields: Readonly<Record<string, unknown>>;
  try {
    fields = Object(JSON.parse(body)) as typeof fields;
  } catch {
    throw usageError('The body is not JSON.');
  }
  const texts = names.map((name) => fields[name]);
  const wrong = names.find((_, at) => typeof texts[at] !== 'string' || texts[at] === '');
  if (wrong !== undefined) throw usageError(`The request must have the text "${wrong}".`);
  return texts as unknown as { readonly [At in keyof Names]: string };
}
