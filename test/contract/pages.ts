/** Lists that grow without bound, read page by page. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../../src/app/client.ts';
import { exitCode } from '../../src/app/errors.ts';
import type { cursorOf, Page, Rows } from '../../src/app/pages.ts';
import { contractWorld, failed, other, running, uidOf } from './permissions.ts';
import { aMember } from '../support/builders.ts';

/** Those of the lab: `test/lab/lab-client.test.ts`. */
type List = Exclude<Parameters<typeof cursorOf>[0], 'lab-jobs' | 'windows' | 'news'>;
type Lists = Readonly<Record<List, (page: Page) => Promise<Rows<unknown>>>>;

/** `owner`: the client of the owner of the jobs. */
const listsOf = (client: Client, ref: string, owner = client): Lists => ({
  async jobs(page) {
    const { rows, next } = await client.list({ ...page, limit: page.limit ?? 1000 });
    return next === undefined ? rows : Object.assign([...rows], { next });
  },
  events: ({ limit, cursor }) => client.events(ref, 0, limit, cursor),
  usage: (page) => client.usage(page),
  tokens: (page) => client.tokens(page),
  messages: ({ limit = 1000, cursor }) => client.messages(limit, cursor),
  audit: (page) => client.audit({ job: ref, ...page }),
  archive: (page) => client.archivedJobs(page),
  'archived-events': (page) => client.archivedEvents(uidOf(ref), page),
  cleanable: (page) => owner.listCleanable(page),
  logs: (page) => client.logs(ref, { all: true, ...page }),
});

export function pageSuite(openClient: Parameters<typeof contractWorld>[0]): void {
  test('a list has the same rows in pages of any size, also while the first rows are removed', async (t) => {
    const world = contractWorld(openClient, t);
    const client = await world.open(aMember('root', { role: 'admin' }));
    const refs: string[] = [];
    for (let count = 0; count < 4; count += 1) refs.push(await world.add(other, running));
    for (let count = 0; count < 3; count += 1) await world.add(other, failed);
    const [ref = ''] = refs;
    for (const verb of ['stop', 'start', 'cancel'] as const)
      await client.sendCommand(ref, verb, { onBehalfOf: 'ada', force: true });
    for (let count = 0; count < 3; count += 1) await client.recordClusterDeletion(uidOf(ref));
    for (const [name, read] of Object.entries(listsOf(client, ref, await world.open(aMember('ada'))))) {
      const whole = [...(await read({}))];
      assert.ok(
        whole.length >= (name === 'archived-events' || name === 'logs' ? 2 : 3),
        `${name} has ${whole.length} rows`,
      );
      for (const limit of [1, 2, whole.length, 1000]) {
        const rows: unknown[] = [];
        let cursor: string | undefined;
        do {
          const page: Rows<unknown> = await read({ limit, ...(cursor !== undefined && { cursor }) });
          assert.ok(page.length <= limit && page.length > 0, `${name}: ${page.length} rows of ${limit}`);
          rows.push(...page);
          cursor = page.next;
        } while (cursor !== undefined);
        assert.deepEqual(rows, whole, `${name} by ${limit}`);
      }
    }
  });

  test('a cursor that no page of the list has given is refused', async (t) => {
    const world = contractWorld(openClient, t);
    const client = await world.open(aMember('ada'));
    const ref = await world.add(other, running);
    const forged = (...parts: readonly unknown[]): string => Buffer.from(JSON.stringify(parts)).toString('base64url');
    for (const [name, read] of Object.entries(listsOf(client, ref)))
      for (const cursor of [
        '',
        'x',
        'am9iIDEyMDA',
        '9'.repeat(400),
        forged(),
        forged(name),
        forged(name, null),
        forged(name, 1.5),
        forged(name, 2 ** 31, 2 ** 31, 2 ** 31),
        forged(name, 'a\u0000', 1),
        forged(name, 1, 'a\u0000'),
        forged(name, 'ada', 1, 'a\u0000'),
        forged(name, 1, 'a\u0000', 1, 1, 1),
        forged('other', 1),
      ])
        await assert.rejects(
          read({ cursor }),
          { code: exitCode.usage, message: /^The cursor does not belong to this list/ },
          name,
        );
  });
}
