/** Requests as another program sends them. */
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { token } from './server.ts';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export const asAda = { authorization: `Bearer ${token}` };

export function open(
  url: string,
  path: string,
  { method = 'GET', headers = asAda, body }: Sent = {},
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url + path, { method, headers, agent: false }, resolve);
    sent.on('error', reject);
    sent.end(body);
  });
}

export async function send(url: string, path: string, sent: Sent = {}): Promise<Answer> {
  const incoming = await open(url, path, sent);
  let text = '';
  for await (const part of incoming) text += String(part);
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, text };
}
