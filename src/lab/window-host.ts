// Where windows are: tmux where it is installed. A window shows an attempt's output; no job depends on it.

export interface WindowHost {
  /** Null where no tmux is installed. */
  readonly tmux: { readonly path: string; readonly version: string } | null;
  /**
   * Opens the window of that number in that session, both made if need be, showing what `argv` prints. Exact names only. Null
   * where there is no tmux, or where another window has that number already: then nothing is shown and nothing is disturbed.
   */
  open(
    window: WindowRef,
    options: {
      readonly title: string;
      /** What makes the window ours, written on it: `000012/1`, the job and its attempt. */
      readonly mark: string;
      readonly argv: readonly string[];
    },
  ): Promise<Pane | null>;
  /**
   * What a window of an attempt shows: its output as it comes, and at the end how it ended, until somebody closes the window;
   * then `closed` is run. `folder` is the attempt's run folder on this machine, `about` begins the last line, and `next` is
   * what may be typed then.
   */
  shower(of: {
    readonly folder: string;
    readonly about: string;
    readonly next: string;
    readonly closed: readonly string[];
  }): readonly string[];
  /** The windows of that session that are ours, by number; null where the session is not there. */
  list(session: string): Promise<readonly number[] | null>;
  /** Closes a window of ours. False where it is not there or is not ours. */
  close(window: WindowRef): Promise<boolean>;
}

export interface WindowRef {
  readonly session: string;
  readonly window: number;
}

/** What a script in that window finds as TMUX and TMUX_PANE. */
export interface Pane {
  readonly tmux: string;
  readonly pane: string;
}
