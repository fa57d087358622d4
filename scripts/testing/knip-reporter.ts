/** Reporter for knip: how many files it analysed, so that a wrong glob cannot pass as a clean project. */
export default function report({ counters }: { readonly counters: { readonly processed: number } }): void {
  process.stdout.write(`knip looked at ${counters.processed} files\n`);
}
