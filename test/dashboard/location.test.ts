/** The address of a page, in a browser that refuses to change it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

interface Shown {
  readonly value: { readonly path: readonly string[]; readonly query: URLSearchParams };
}

test('a page has each change of its parameters, also one that the address of the browser cannot have', async (t) => {
  const given: string[] = [];
  let isRefused = false;
  Object.assign(globalThis, {
    location: { origin: 'http://127.0.0.1', pathname: '/jobs', search: '?all=1' },
    history: {
      replaceState(_state: unknown, _title: string, href: string) {
        if (isRefused) throw new Error('SecurityError');
        given.push(href);
      },
    },
  });
  t.after(() => {
    for (const name of ['location', 'history']) Reflect.deleteProperty(globalThis, name);
  });
  // Another file may have loaded the module without an address. It needs the types of a browser, which the tests do not have.
  const { address, changeQuery } = (await import(`../../src/dashboard/location.ts?${test.name}`)) as {
    readonly address: Shown;
    readonly changeQuery: (changes: Readonly<Record<string, string | null>>) => void;
  };
  const filterAfter = (filter: string): string | null => {
    changeQuery({ filter });
    return address.value.query.get('filter');
  };
  assert.equal(filterAfter('a b'), 'a b');
  assert.deepEqual([address.value.path, given], [['jobs'], ['/jobs?all=1&filter=a+b']]);
  const long = 'x'.repeat(20_000);
  assert.equal(filterAfter(long), long);
  isRefused = true;
  assert.equal(filterAfter('c'), 'c');
  assert.equal(given.length, 1);
});
