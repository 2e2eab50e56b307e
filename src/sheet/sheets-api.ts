// The client of Google's Sheets API, v4: reads cells and writes single cells. Every request has a time limit, because people wait
// for it; none is retried.

import { readFile } from 'node:fs/promises';
import type { sheets_v4 } from '@googleapis/sheets';
import type { JWT } from 'google-auth-library';
import { exitCode, JobmanError } from '../app/errors.ts';
import { googleLimits } from '../http/client.ts';
import { second } from '../core/time.ts';
import type { Duration } from '../core/time.ts';
import type { Spreadsheet } from '../lab/site.ts';
import type { Grid } from './layout.ts';

export interface SheetsApi {
  /** The columns A to H. Throws JobmanError (5). */
  read(): Promise<Grid>;
  /** Writes those cells and no other, as they stand: nothing becomes a formula. Throws JobmanError (5). */
  write(cells: readonly { readonly cell: string; readonly value: string }[]): Promise<void>;
}

/** The time limit of one request, with the login before it. */
const answerWithin: Duration = 8 * second;

/** One that was silent is not asked again for so long: a command that asks several times waits once. */
const silentFor: Duration = 30 * second;

const google = 'https://sheets.googleapis.com/';
const scope = 'https://www.googleapis.com/auth/spreadsheets';

/** Asks nobody yet. */
export function createSheetsApi(
  { id, tab, credentials, endpoint }: Spreadsheet,
  within: Duration = answerWithin,
): SheetsApi {
  let client: Promise<Client> | undefined;
  let silent: { readonly error: Error; readonly until: number } | undefined;
  // A range without a tab is one of the first tab.
  const inTab = (range: string): string => (tab === null ? range : `'${tab.replaceAll("'", "''")}'!${range}`);

  async function open(): Promise<Client> {
    // A server of our own asks for no login, and is shown none.
    const auth = endpoint === null ? await loginOf(credentials) : undefined;
    const { sheets } = await import('@googleapis/sheets');
    const { values } = sheets({
      ...googleLimits,
      version: 'v4',
      rootUrl: endpoint === null ? google : `${endpoint.replace(/\/+$/, '')}/`,
      ...(auth === undefined ? {} : { auth }),
    }).spreadsheets;
    return values;
  }

  async function ask<Answer>(question: (values: Client, signal: AbortSignal) => Promise<Answer>): Promise<Answer> {
    if (silent !== undefined && performance.now() < silent.until) throw trouble(silent.error, credentials);
    const { promise: late, reject } = Promise.withResolvers<never>();
    const off = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    try {
      client ??= open();
      // Loading what asks is no time of the sheet's.
      const values = await client;
      timer = setTimeout(() => {
        const error = new Error(`no answer within ${within / second} s`);
        silent = { error, until: performance.now() + silentFor };
        reject(error);
        off.abort();
      }, within);
      return await Promise.race([question(values, off.signal), late]);
    } catch (error) {
      client = undefined;
      throw trouble(error, credentials);
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    read: () =>
      ask(async (values, signal) => {
        const { data } = await values.get(
          { spreadsheetId: id, range: inTab('A:H'), majorDimension: 'ROWS' },
          { signal, retry: false },
        );
        return gridIn(data);
      }),
    write: (cells) =>
      ask(async (values, signal) => {
        const data = cells.map(({ cell, value }) => ({ range: inTab(cell), values: [[value]] }));
        const requestBody = { valueInputOption: 'RAW', data };
        const answer = await values.batchUpdate({ spreadsheetId: id, requestBody }, { signal, retry: false });
        textIn(answer.data, 'spreadsheetId');
      }),
  };
}

/** The rows of an answer. Throws for a page of something in between, which would otherwise look like an empty sheet: all would be free. */
function gridIn(answer: unknown): Grid {
  textIn(answer, 'range');
  const { values = [] } = answer as { readonly values?: unknown };
  if (!Array.isArray(values) || !values.every((row) => Array.isArray(row))) throw notOurs();
  return values;
}

/** Throws where the answer does not have that text, which all of its kind have. */
function textIn(answer: unknown, name: string): void {
  const has = typeof answer === 'object' && answer !== null && name in answer;
  if (!has || typeof (answer as Readonly<Record<string, unknown>>)[name] !== 'string') throw notOurs();
}

function notOurs(): Error {
  return new Error('its answer is not that of the Sheets API');
}

type Client = sheets_v4.Resource$Spreadsheets$Values;

async function loginOf(file: string): Promise<JWT> {
  const { client_email: email, private_key: key } = JSON.parse(await readFile(file, 'utf8')) as {
    readonly client_email?: unknown;
    readonly private_key?: unknown;
  };
  if (typeof email !== 'string' || typeof key !== 'string') {
    throw new SyntaxError('it has no client_email and private_key, as the key file of a service account has');
  }
  const { JWT: Login } = await import('google-auth-library');
  return new Login({ email, key, scopes: [scope], transporterOptions: googleLimits });
}

/** Hints for people by the status of the answer; see https://developers.google.com/sheets/api/reference/limits. */
const hints: Readonly<Record<number, string>> = {
  400: 'Is `tab` of the setting lab.spreadsheet the name of one of its tabs?',
  401: 'Its login was refused: is the key file of lab.spreadsheet still valid?',
  403: 'Share the spreadsheet with the service account of the key file, as an editor.',
  404: 'Is `id` of the setting lab.spreadsheet that of its address?',
  429: 'Too many have asked in this minute; a moment later it answers again.',
};

function trouble(error: unknown, credentials: string): JobmanError {
  const status = statusOf(error);
  const said = error instanceof Error ? error.message : String(error);
  const isKey = error instanceof SyntaxError || /^(ENOENT|EACCES|EISDIR)\b/.test(said) || /DECODER|PEM/.test(said);
  const hint = isKey ? `The key file of its service account cannot be used: ${credentials}` : hints[status ?? 0];
  const what = status === null ? 'does not answer' : `answers with an error (${status})`;
  return new JobmanError(`The spreadsheet of bookings ${what}.`, exitCode.unreachable, [
    said.split('\n')[0] ?? '',
    ...(hint === undefined ? [] : [hint]),
  ]);
}

function statusOf(error: unknown): number | null {
  const status = (error as { readonly status?: unknown; readonly code?: unknown } | null)?.status;
  return typeof status === 'number' ? status : null;
}
