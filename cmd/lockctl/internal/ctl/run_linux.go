package ctl

import "syscall"

// withParent has the kernel kill the command when lockctl is killed.
func withParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
