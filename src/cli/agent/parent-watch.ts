/** Detects that the parent process has ended: the pipe to its stdin closes. */

/** Calls `onExit` once. */
export function onParentExit(onExit: () => void): void {
  const { stdin } = process;
  let reported = false;
  const report = (): void => {
    if (reported) return;
    reported = true;
    onExit();
  };
  stdin.on('end', report);
  stdin.on('close', report);
  stdin.on('error', report);
  stdin.resume();
}
