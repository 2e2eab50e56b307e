// A long line in full, and downloads.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { LogRef } from '../../app/client.ts';
import { escapeForTerminal, formatBytes } from '../../app/format.ts';
import { maxBlock, type ReadPart } from '../../app/find-line.ts';
import { Command } from '../parts/command.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Failure } from '../parts/messages.tsx';
import { Near } from '../parts/near.tsx';
import { save } from '../parts/save.ts';
import { client, errorLines } from '../session.ts';
import { decode, type LogLine } from './lines.ts';

export interface ShownLine {
  readonly read: ReadPart;
  readonly line: LogLine;
}

/** In bytes. The rest of a longer line is only in the download. */
const maxShown = 8 * 1024 * 1024;

export function WholeLine({
  shown: { read, line },
  onClose,
}: {
  readonly shown: ShownLine;
  readonly onClose: () => void;
}) {
  const text = useSignal<string | null>(null);
  const failure = useSignal<readonly string[] | null>(null);
  useEffect(() => {
    const readLine = async (): Promise<void> => {
      const parts: Uint8Array[] = [];
      for await (const bytes of bytesOf(read, line.from, Math.min(line.to, line.from + maxShown))) parts.push(bytes);
      text.value = escapeForTerminal(parts.map(decode).join(''), false);
    };
    readLine().catch((error: unknown) => (failure.value = errorLines(error)));
  }, []);
  const size = line.to - line.from;
  return (
    <Dialog title={`A line of ${formatBytes(size)}`} onClose={onClose}>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      {text.value === null ? (
        failure.value === null && <p class="quiet">Reading…</p>
      ) : (
        <pre class="log-whole" tabIndex={0}>
          {text.value}
        </pre>
      )}
      {size > maxShown && <p class="quiet">Only its first {formatBytes(maxShown)} are shown.</p>}
    </Dialog>
  );
}

/** In pixels. */
const rowHeight = 32;

export function Downloads({ logs, onClose }: { readonly logs: readonly LogRef[]; readonly onClose: () => void }) {
  return (
    <Dialog title="Download" onClose={onClose}>
      <ul class="log-files">
        <Near count={logs.length} itemHeight={rowHeight} as="li" keyOf={(index) => logs[index]?.id ?? ''}>
          {(index) => <Download log={logs[index] as LogRef} />}
        </Near>
      </ul>
      {logs[0] !== undefined && <Command text={`jobman logs ${logs[0].job} --raw > ${logs[0].job}.log`} />}
    </Dialog>
  );
}

/** The bytes as the program wrote them. */
function Download({ log }: { readonly log: LogRef }) {
  const read = useSignal<number | null>(null);
  const failure = useSignal<readonly string[] | null>(null);
  const isWanted = useRef(true);
  useEffect(
    () => () => {
      isWanted.current = false;
    },
    [],
  );
  const start = async (): Promise<void> => {
    read.value = 0;
    failure.value = null;
    // A browser keeps large blobs in files.
    const parts: Blob[] = [];
    try {
      for await (const bytes of bytesOf(
        (from, maxBytes) => client.readLog(log.job, log.id, from, maxBytes),
        0,
        log.size,
      )) {
        if (!isWanted.current) return;
        parts.push(new Blob([bytes]));
        read.value += bytes.length;
      }
      save(new Blob(parts), `${log.job}-${log.id.replaceAll('/', '-')}.log`);
    } catch (error) {
      failure.value = errorLines(error);
    }
    read.value = null;
  };
  return (
    <>
      <span>
        {log.id} <span class="quiet">{formatBytes(log.size)}</span>
      </span>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      <button disabled={read.value !== null} aria-label={`Download ${log.id}`} onClick={() => void start()}>
        {read.value === null ? 'Download' : `${Math.floor((read.value / Math.max(1, log.size)) * 100)}%`}
      </button>
    </>
  );
}

/** An answer may have fewer bytes than requested. */
async function* bytesOf(read: ReadPart, from: number, to: number): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  for (let at = from; at < to;) {
    const { bytes } = await read(at, Math.min(maxBlock, to - at));
    if (bytes.length === 0) return;
    yield bytes as Uint8Array<ArrayBuffer>;
    at += bytes.length;
  }
}
