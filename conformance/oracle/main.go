// Command oracle runs the upstream scheduler on cases read as JSON lines from
// standard input and prints one JSON answer per case, in input order.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
)

const maxLine = 64 << 20

func main() {
	version := flag.Bool("version", false, "print the version of the upstream scheduler and exit")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "number of cases evaluated at the same time")
	flag.Parse()
	if *version {
		fmt.Println(upstreamVersion())
		return
	}
	if err := serve(os.Stdin, os.Stdout, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// upstreamVersion returns the version of the linked scheduler module.
func upstreamVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "k8s.io/kubernetes" {
				return dep.Version
			}
		}
	}
	return "unknown"
}

// serve answers every line of in. Workers evaluate cases concurrently; the
// queue of one-shot channels keeps the answers in input order.
func serve(in io.Reader, out io.Writer, workers int) error {
	if workers < 1 {
		workers = 1
	}
	type job struct {
		line []byte
		done chan []byte
	}
	jobs := make(chan job)
	order := make(chan chan []byte, workers*4)
	for range workers {
		go func() {
			for j := range jobs {
				j.done <- answerLine(j.line)
			}
		}()
	}

	var readErr error
	go func() {
		defer close(order)
		defer close(jobs)
		sc := bufio.NewScanner(in)
		sc.Buffer(make([]byte, 1<<20), maxLine)
		for sc.Scan() {
			line := bytes.TrimSpace(sc.Bytes())
			if len(line) == 0 {
				continue
			}
			j := job{line: bytes.Clone(line), done: make(chan []byte, 1)}
			order <- j.done
			jobs <- j
		}
		readErr = sc.Err()
	}()

	w := bufio.NewWriterSize(out, 1<<20)
	for done := range order {
		var b []byte
		select {
		case b = <-done:
		default:
			// Flush before blocking, so that the reader gets the answers so far.
			if err := w.Flush(); err != nil {
				return err
			}
			b = <-done
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
		if len(order) == 0 {
			// The client may send the next case only after this answer.
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return readErr
}

// answerLine returns the output line for an input line. It never panics.
func answerLine(line []byte) []byte {
	out, err := encode(explain(line))
	if err != nil {
		out, _ = encode(&answer{ID: rawID(line), Error: "encoding the answer: " + err.Error()})
	}
	return out
}

// encode is json.Marshal without the escaping of <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
