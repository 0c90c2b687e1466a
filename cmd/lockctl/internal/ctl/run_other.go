//go:build unix && !linux

package ctl

import "syscall"

// withParent does nothing: this system does not notify a command that its parent was killed.
func withParent(*syscall.SysProcAttr) {}
