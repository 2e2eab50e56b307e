// Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

export interface ServerEvent {
  /** `message` if the event has no name. */
  readonly kind: string;
  readonly data: string;
  /** The id of this event, else the newest earlier id; undefined without any. */
  readonly id: string | undefined;
}

/** The events of a body, without comments. Ignores an incomplete event at the end, as the standard says. */
export async function* parseEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent, void> {
  const decoder = new TextDecoder();
  let id: string | undefined;
  let [rest, kind, data] = ['', '', [] as string[]];
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield { kind: kind === '' ? 'message' : kind, data: data.join('\n'), id };
        [kind, data] = ['', []];
        continue;
      }
      const [, field, value = ''] = /^([^:]+)(?:: ?(.*))?$/.exec(line) ?? [];
      if (field === 'data') data.push(value);
      else if (field === 'event') kind = value;
      else if (field === 'id') id = value;
    }
  }
}
