// Exec report: the exit code of a program whose input is more than it reads. A cluster does not report the end of such a program
// while its input waits to be read: the API server's connection to the node is blocked by that input. So a shell in the
// container writes the exit code as the last line of stderr, behind a text that nobody else knows.

/** Behind `sh -c`: `$0` is the text, the arguments are the program. */
const reporter = 'env "$@"; code=$?; echo "$0$code" >&2; exit "$code"';

/** The words that run `argv` and report its exit code behind `text`. The container needs `sh` and `env`. */
export function reporting(argv: readonly string[], text: string): readonly string[] {
  return ['sh', '-c', reporter, text, ...argv];
}

/** As many bytes as the number of a report and its end have: no shell has an exit code above 255. */
const reportMost = 4;

/** Takes the report out of a program's stderr. */
export interface ReportReader {
  /** The program's own output in these bytes and in those held back before. */
  take(bytes: Uint8Array): Buffer;
  /** The bytes that were held back and are no report. */
  rest(): Buffer;
  /** The exit code, once it was reported. */
  code(): number | undefined;
}

/** `text` is that of `reporting`. Bytes that may begin the report are held back until more is known. */
export function createReportReader(text: string): ReportReader {
  const mark = Buffer.from(text);
  let held: Buffer = Buffer.alloc(0);
  let code: number | undefined;
  return {
    take(bytes) {
      const all = Buffer.concat([held, bytes]);
      let at = all.indexOf(mark);
      for (; at >= 0; at = all.indexOf(mark, at + 1)) {
        const told = all.toString('latin1', at + mark.length, at + mark.length + reportMost);
        const [report, digits] = /^(\d{1,3})\n/.exec(told) ?? [];
        if (report !== undefined) {
          code = Number(digits);
          held = Buffer.alloc(0);
          return Buffer.concat([all.subarray(0, at), all.subarray(at + mark.length + report.length)]);
        }
        // The program knows the text from its environment: what it prints behind it need not be a number, or ever end.
        if (told.length < reportMost && /^\d*$/.test(told)) break;
      }
      let from = at;
      for (let length = Math.min(mark.length - 1, all.length); from < 0 && length > 0; length -= 1) {
        if (mark.subarray(0, length).equals(all.subarray(all.length - length))) from = all.length - length;
      }
      held = from < 0 ? Buffer.alloc(0) : all.subarray(from);
      return from < 0 ? all : all.subarray(0, from);
    },
    rest() {
      const bytes = held;
      held = Buffer.alloc(0);
      return bytes;
    },
    code: () => code,
  };
}
