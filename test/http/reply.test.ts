// The messages that are made of replies.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { summarizeBody } from '../../src/http/reply.ts';

suite('the summary of an unexpected reply', () => {
  const page = `<!DOCTYPE html>\n<html><head><title>407 Proxy\n  Authentication Required</title></head><body><p>${'no '.repeat(500)}`;
  for (const [what, body, expected] of [
    ['the title of a page', page, '407 Proxy Authentication Required'],
    ['its heading without a title', '<html><body><h1 class="x">Denied</h1>', 'Denied'],
    ['its text without both', '<HTML><p>404 Not Found</p></HTML>', '404 Not Found'],
    ['a text on one line', '{"error":\n  "<title>x</title>"}', '{"error": "<title>x</title>"}'],
    ['the start of a long text', 'x'.repeat(500), 'x'.repeat(300)],
  ] as const)
    test(`is ${what}`, () => assert.equal(summarizeBody(body), expected));
});
