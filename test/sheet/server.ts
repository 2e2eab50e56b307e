// A small server that follows the values methods of the Sheets API v4, with a sheet in memory.
// https://developers.google.com/sheets/api/reference/rest/v4/spreadsheets.values

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SheetServer {
  readonly url: string;
  /** Rows of cells from A1. A test may change them at any time. */
  readonly grid: string[][];
  /** `METHOD path` of each request, in order. */
  readonly requests: string[];
  /** Status of the next answers; `silent`: no answer. */
  fault: number | 'unreachable' | null;
  /** Body of the next answers with status 200, like the page of a proxy. */
  proxyPage: { readonly type: string; readonly text: string } | null;
  /** Called after each answer. */
  onRead: () => void;
  close(): Promise<void>;
}

export const sheetId = '1AbC_d-9';
export const sheetTab = "Bob's TPUs";

export async function openSheetServer(rows: readonly (readonly string[])[]): Promise<SheetServer> {
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const sheet: SheetServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    grid: rows.map((row) => [...row]),
    requests: [],
    fault: null,
    proxyPage: null,
    onRead: () => undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = decodeURIComponent((request.url ?? '').split('?')[0] ?? '');
    sheet.requests.push(`${request.method} ${path}`);
    let text = '';
    for await (const part of request) text += String(part);
    if (sheet.fault === 'unreachable') return;
    if (sheet.proxyPage !== null) {
      response.writeHead(200, { 'content-type': sheet.proxyPage.type }).end(sheet.proxyPage.text);
      return;
    }
    if (sheet.fault !== null) return fail(response, sheet.fault, 'The caller does not have permission');
    const [, id, call] = /^\/v4\/spreadsheets\/([^/]+)\/values(.*)$/.exec(path) ?? [];
    if (id !== sheetId) return fail(response, 404, 'Requested entity was not found.');
    if (request.method === 'GET') {
      const range = rangeOf(call?.slice(1) ?? '');
      if (range === undefined) return fail(response, 400, `Unable to parse range: ${call?.slice(1)}`);
      // Like Google, omits empty cells and rows at the end.
      const values = trimmed(
        sheet.grid.map((row) => trimmed(row.slice(0, 8), '')),
        undefined,
      );
      send(response, 200, {
        range: call?.slice(1),
        majorDimension: 'ROWS',
        ...(values.length === 0 ? {} : { values }),
      });
      return sheet.onRead();
    }
    const body = JSON.parse(text) as { valueInputOption?: string; data?: { range: string; values: string[][] }[] };
    if (call !== ':batchUpdate' || body.valueInputOption !== 'RAW')
      return fail(response, 400, "'valueInputOption' is required but not specified");
    const cells = (body.data ?? []).map(({ range, values }) => ({
      cell: rangeOf(range),
      value: values[0]?.[0] ?? '',
    }));
    if (cells.some(({ cell }) => cell === undefined || cell.row === 0))
      return fail(response, 400, 'Unable to parse range');
    for (const { cell, value } of cells) {
      if (cell === undefined) continue;
      while (sheet.grid.length < cell.row) sheet.grid.push([]);
      const row = sheet.grid[cell.row - 1] ?? [];
      while (row.length <= cell.column) row.push('');
      row[cell.column] = value;
    }
    send(response, 200, { spreadsheetId: id, totalUpdatedCells: cells.length });
  }
  return sheet;
}

/** Parses `'Bob''s TPUs'!D12` and `A:H`; the row of whole columns is 0. */
function rangeOf(text: string): { readonly row: number; readonly column: number } | undefined {
  const [, quoted, letter = '', row] = /^(?:'((?:[^']|'')+)'!)?([A-Z])(?::[A-Z]|(\d+))$/.exec(text) ?? [];
  if (letter === '' || (quoted !== undefined && quoted.replaceAll("''", "'") !== sheetTab)) return undefined;
  return { row: Number(row ?? 0), column: letter.charCodeAt(0) - 65 };
}

function trimmed<Cell>(cells: readonly Cell[], empty: Cell | undefined): Cell[] {
  const all = [...cells];
  const isEmpty = (cell: Cell | undefined): boolean => cell === empty || (Array.isArray(cell) && cell.length === 0);
  while (all.length > 0 && isEmpty(all.at(-1))) all.pop();
  return all;
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=UTF-8' });
  response.end(JSON.stringify(body));
}

function fail(response: ServerResponse, code: number, message: string): void {
  send(response, code, { error: { code, message, status: 'ERROR' } });
}
