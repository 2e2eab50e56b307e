// A client of the Google Sheets API v4 that reads cells and writes single cells. Every request has a time limit,
// because users wait for it. None is retried.

import { readFile } from 'node:fs/promises';
import type { sheets_v4 } from '@googleapis/sheets';
import type { JWT } from 'google-auth-library';
import { withTimeout } from '../app/concurrency.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { googleLimits } from '../http/client.ts';
import { second, type Duration } from '../core/model/time.ts';
import type { Spreadsheet } from '../lab/site.ts';
import type { Grid } from './layout.ts';

export interface SheetsApi {
  /** The columns A to H. Throws JobmanError (5). */
  read(): Promise<Grid>;
  /** Writes only these cells, as plain text: nothing becomes a formula. Throws JobmanError (5). */
  write(cells: readonly { readonly cell: string; readonly value: string }[]): Promise<void>;
}

/** Time limit of one request, including the login. */
const requestTimeout: Duration = 8 * second;

/**
 * After a timeout, requests fail for this long without another attempt, so that a command with several requests waits
 * only once.
 */
const outageCooldown: Duration = 30 * second;

const google = 'https://sheets.googleapis.com/';
const scope = 'https://www.googleapis.com/auth/spreadsheets';

/** Connects on the first request. */
export function createSheetsApi(
  { id, tab, credentials, endpoint }: Spreadsheet,
  timeout: Duration = requestTimeout,
): SheetsApi {
  let client: Promise<ValuesClient> | undefined;
  let outage: { readonly error: Error; readonly until: number } | undefined;
  // A range without a tab belongs to the first tab.
  const inTab = (range: string): string => (tab === null ? range : `'${tab.replaceAll("'", "''")}'!${range}`);

  async function open(): Promise<ValuesClient> {
    // A test server needs no login and must not receive one.
    const auth = endpoint === null ? await readLogin(credentials) : undefined;
    const { sheets } = await import('@googleapis/sheets');
    const { values } = sheets({
      ...googleLimits,
      version: 'v4',
      rootUrl: endpoint === null ? google : `${endpoint.replace(/\/+$/, '')}/`,
      ...(auth === undefined ? {} : { auth }),
    }).spreadsheets;
    return values;
  }

  async function send<Answer>(
    request: (values: ValuesClient, signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    if (outage !== undefined && performance.now() < outage.until) throw sheetError(outage.error, credentials);
    const controller = new AbortController();
    try {
      client ??= open();
      // Loading the client library does not count as the sheet's response time.
      const values = await client;
      return await withTimeout(timeout, request(values, controller.signal), () => {
        const error = new Error(`no answer within ${timeout / second} s`);
        outage = { error, until: performance.now() + outageCooldown };
        controller.abort();
        throw error;
      });
    } catch (error) {
      client = undefined;
      throw sheetError(error, credentials);
    }
  }

  return {
    read: () =>
      send(async (values, signal) => {
        const { data } = await values.get(
          { spreadsheetId: id, range: inTab('A:H'), majorDimension: 'ROWS' },
          { signal, retry: false },
        );
        return parseGrid(data);
      }),
    write: (cells) =>
      send(async (values, signal) => {
        const data = cells.map(({ cell, value }) => ({ range: inTab(cell), values: [[value]] }));
        const requestBody = { valueInputOption: 'RAW', data };
        const answer = await values.batchUpdate({ spreadsheetId: id, requestBody }, { signal, retry: false });
        requireText(answer.data, 'spreadsheetId');
      }),
  };
}

/** The rows of an answer. Throws for a proxy's page: read as an empty sheet, it would make every TPU free. */
function parseGrid(answer: unknown): Grid {
  requireText(answer, 'range');
  const { values = [] } = answer as { readonly values?: unknown };
  if (!Array.isArray(values) || !values.every((row) => Array.isArray(row))) throw unexpectedAnswer();
  return values;
}

/** Throws unless the answer has this text field, which every answer of its kind has. */
function requireText(answer: unknown, name: string): void {
  const has = typeof answer === 'object' && answer !== null && name in answer;
  if (!has || typeof (answer as Readonly<Record<string, unknown>>)[name] !== 'string') throw unexpectedAnswer();
}

function unexpectedAnswer(): Error {
  return new Error('the answer is not from the Sheets API');
}

type ValuesClient = sheets_v4.Resource$Spreadsheets$Values;

async function readLogin(file: string): Promise<JWT> {
  const { client_email: email, private_key: key } = JSON.parse(await readFile(file, 'utf8')) as {
    readonly client_email?: unknown;
    readonly private_key?: unknown;
  };
  if (typeof email !== 'string' || typeof key !== 'string')
    throw new SyntaxError('the key file of a service account has client_email and private_key; this file has not');
  const { JWT: Login } = await import('google-auth-library');
  return new Login({ email, key, scopes: [scope], transporterOptions: googleLimits });
}

/** Hints by HTTP status; see https://developers.google.com/sheets/api/reference/limits. */
const hints: Readonly<Record<number, string>> = {
  400: 'Check `tab` of the setting lab.spreadsheet: the spreadsheet may have no such tab.',
  401: 'The login was refused. Check the key file of lab.spreadsheet.',
  403: 'Share the spreadsheet with the service account of the key file, as an editor.',
  404: 'Check `id` of the setting lab.spreadsheet: it is a part of the address of the spreadsheet.',
  429: 'Too many requests in this minute. Try again in a minute.',
};

function sheetError(error: unknown, credentials: string): JobmanError {
  const status = statusOf(error);
  const reason = error instanceof Error ? error.message : String(error);
  const isKey = error instanceof SyntaxError || /^(ENOENT|EACCES|EISDIR)\b/.test(reason) || /DECODER|PEM/.test(reason);
  const hint = isKey ? `Cannot use the key file of the service account: ${credentials}` : hints[status ?? 0];
  const what = status === null ? 'does not answer' : `returned an error (${status})`;
  return new JobmanError(`The booking spreadsheet ${what}.`, exitCode.unreachable, [
    reason.split('\n')[0] ?? '',
    ...(hint === undefined ? [] : [hint]),
  ]);
}

function statusOf(error: unknown): number | null {
  const status = (error as { readonly status?: unknown; readonly code?: unknown } | null)?.status;
  return typeof status === 'number' ? status : null;
}
