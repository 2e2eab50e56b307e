// Bucket: the objects of Cloud Storage below a prefix.
// Source: https://cloud.google.com/storage/docs/json_api/v1/objects and .../request-preconditions.

import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../app/errors.ts';
import type { Answer, BytesApi, GoogleApi } from '../app/google.ts';
import { matchesShape, type Shape, type ShapeValue } from '../app/json.ts';
import type { Bucket, BucketObject } from '../app/ports.ts';
import { unexpectedForm } from '../app/refusal.ts';
import type { CloudErrorKind } from '../core/model/job.ts';
import { parseInstant, second, type Duration } from '../core/model/time.ts';

const objectForm = {
  name: 'string',
  // An uint64, which JSON cannot hold as a number.
  size: 'string',
  generation: 'string',
  metageneration: 'string',
  timeCreated: 'string',
  customTime: 'string',
  md5Hash: 'string',
} as const satisfies Shape;
const objectFields = Object.keys(objectForm).join(',');
const pageForm = { nextPageToken: 'string', items: [objectForm] } as const satisfies Shape;

/** A retry may help: https://cloud.google.com/storage/docs/retry-strategy. Each request here is safe to repeat. */
const temporary: readonly CloudErrorKind[] = ['unreachable', 'rate_limited', 'internal'];
const maxTries = 4;

export function createBucket(
  api: GoogleApi & BytesApi,
  { bucket, prefix }: { readonly bucket: string; readonly prefix: string },
  firstDelay: Duration = second / 2,
): Bucket {
  const address = `gs://${bucket}/${prefix}`.replace(/\/$/, '');
  const before = prefix === '' ? '' : `${prefix.replace(/\/$/, '')}/`;
  const top = `storage/v1/b/${encodeURIComponent(bucket)}/o`;
  const pathOf = (name: string, query: Readonly<Record<string, string>>): string =>
    `${top}/${encodeURIComponent(before + name)}?${String(new URLSearchParams(query))}`;

  /** Undefined if the answer has one of these statuses. */
  async function ask<T>(call: () => Promise<Answer<T>>, allowed: readonly string[] = []): Promise<T | undefined> {
    for (let tries = 1; ; tries += 1) {
      const answer = await call();
      if (answer.ok) return answer.value;
      const { status, error } = answer;
      // A missing bucket is not a missing object.
      if (allowed.includes(status) && !/bucket does not exist/i.test(error.raw)) return undefined;
      const isFinal = error.noLogin === true || !temporary.includes(error.kind) || status === 'FAILED_PRECONDITION';
      if (isFinal || tries === maxTries) throw new StoreError('broken', `${address} cannot be used: ${error.raw}`);
      await sleep(firstDelay * 2 ** (tries - 1));
    }
  }

  function unexpected(what: string): StoreError {
    return new StoreError('broken', `${address} cannot be used: ${unexpectedForm(what).raw}`);
  }

  function objectOf(value: ShapeValue<typeof objectForm>): BucketObject {
    const { name, size, generation, metageneration = '' } = value;
    if (name?.startsWith(before) !== true || size === undefined || generation === undefined)
      throw unexpected('an object');
    const usedAt = Math.max(parseInstant(value.timeCreated) ?? 0, parseInstant(value.customTime) ?? 0);
    return { name: name.slice(before.length), size: Number(size), generation, metageneration, usedAt };
  }

  async function objectAt(
    call: () => Promise<Answer<ShapeValue<typeof objectForm>>>,
    allowed: readonly string[],
  ): Promise<(BucketObject & { readonly md5Hash: string | undefined }) | null> {
    const value = await ask(call, allowed);
    if (value === undefined) return null;
    if (!matchesShape(value, objectForm)) throw unexpected('an object');
    return { ...objectOf(value), md5Hash: value.md5Hash };
  }

  return {
    address,

    find: (name) => objectAt(() => api.call('GET', pathOf(name, { fields: objectFields })), ['NOT_FOUND']),

    async read({ name, generation }, from, length) {
      if (length === 0) return Buffer.alloc(0);
      const range = { range: `bytes=${from}-${from + length - 1}` };
      const bytes = await ask(() => api.bytes('GET', pathOf(name, { alt: 'media', generation }), range), ['NOT_FOUND']);
      if (bytes === undefined) return null;
      if (bytes.length !== length) throw unexpected(`a part of ${name}`);
      return bytes;
    },

    async *list(start) {
      let token = '';
      do {
        const query = new URLSearchParams({
          prefix: before + start,
          fields: `nextPageToken,items(${objectFields})`,
          ...(token === '' ? {} : { pageToken: token }),
        });
        const page = await ask<ShapeValue<typeof pageForm>>(() => api.call('GET', `${top}?${String(query)}`));
        if (page === undefined || !matchesShape(page, pageForm) || (token !== '' && page.nextPageToken === token))
          throw unexpected('the list of objects');
        yield* (page.items ?? []).map(objectOf);
        token = page.nextPageToken ?? '';
      } while (token !== '');
    },

    async write(name, bytes, generation) {
      const query = new URLSearchParams({
        uploadType: 'media',
        name: before + name,
        ifGenerationMatch: generation ?? '0',
        fields: objectFields,
      });
      const path = `upload/${top}?${String(query)}`;
      // An object that was replaced or removed meanwhile is FAILED_PRECONDITION.
      const written = await objectAt(() => api.call('POST', path, bytes), ['FAILED_PRECONDITION']);
      if (written === null) return null;
      const md5 = createHash('md5').update(bytes).digest('base64');
      if (written.size !== bytes.length || (written.md5Hash ?? md5) !== md5)
        throw new StoreError('broken', `${address} has other bytes of ${name} than were sent.`);
      return written;
    },

    async setUsed(name, at) {
      const change = { customTime: new Date(at).toISOString() };
      const path = pathOf(name, { fields: objectFields });
      // Google refuses an earlier time than the object has: another server, with a faster clock, has used it.
      const changed = await objectAt(() => api.call('PATCH', path, change), ['NOT_FOUND', 'INVALID_ARGUMENT']);
      return changed !== null || (await this.find(name)) !== null;
    },

    async remove(name, metageneration) {
      const query = metageneration === undefined ? {} : { ifMetagenerationMatch: metageneration };
      const path = pathOf(name, query);
      if ((await ask(() => api.bytes('DELETE', path), ['NOT_FOUND', 'FAILED_PRECONDITION'])) !== undefined) return true;
      return (await this.find(name)) === null;
    },
  };
}
