/** A page in headless Chromium, as a person sees it. */
import type { TestContext } from 'node:test';
import axe from 'axe-core';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import assert from 'node:assert/strict';
import { findProgram, requireReal } from './real.ts';
import type { World } from './world.ts';

export interface OpenedPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors of scripts, and messages of the browser such as a violation of the policy. */
  readonly problems: string[];
}

/** Each page has its own session. */
export type OpenPage = (options?: Parameters<Browser['newContext']>[0]) => Promise<OpenedPage>;

/** Undefined if this machine has no Chromium. A problem on a page fails the test at its end. */
export async function openBrowser(t: TestContext, world: World): Promise<OpenPage | undefined> {
  const executablePath = findProgram('chromium');
  if (!requireReal(t, 'chromium', executablePath) || executablePath === undefined) return undefined;
  // Root has no sandbox.
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  const opened: OpenedPage[] = [];
  world.atEnd(async () => {
    await browser.close();
    assert.deepEqual(
      opened.flatMap(({ problems }) => problems),
      [],
    );
  });
  return async (options = {}) => {
    const context = await browser.newContext(options);
    // A busy machine is slow, and a state that never comes fails in any case.
    context.setDefaultTimeout(90_000);
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('pageerror', ({ message }) => problems.push(message));
    page.on('console', (message) => {
      // The page itself reports a lost connection and a cluster that does not answer, and asks for a login.
      const isExpected = /^Failed to load resource: (?:net::|the server responded with a status of (?:401|503))/.test(
        message.text(),
      );
      if (message.type() === 'error' && !isExpected) problems.push(message.text());
    });
    opened.push({ page, context, problems });
    return { page, context, problems };
  };
}

/** Fails with each violation of the rules of axe-core (WCAG 2.2 AA). */
export async function assertAccessible(page: Page): Promise<void> {
  // The policy of the page allows no script of a test; that of the debugger is not subject to it.
  await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const { axe: own } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> };
    };
    return (await own.run()).violations.map(({ id, nodes }) => ({
      id,
      nodes: nodes.map(({ html, failureSummary }) => `${html}\n${failureSummary}`),
    }));
  });
  assert.deepEqual(violations, []);
}
